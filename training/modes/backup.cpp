#include "training/modes/backup.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/errc.hpp"

namespace weir::training {
namespace {

using servers::Decision;

std::vector<std::uint32_t> all_of(std::size_t workers) {
  std::vector<std::uint32_t> all(workers);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

/// Of the first server.
class FirstOnes final : public servers::PushRule {
 public:
  FirstOnes(std::size_t workers, std::size_t needed) : workers_(workers), needed_(needed) {}

  Result<std::vector<Decision>> arrived(std::uint32_t worker, std::uint64_t version, std::uint64_t present) override {
    if (version < present) return std::vector<Decision>{{.applied = {}, .dropped = {worker}, .answered = {worker}}};
    there_.insert(worker);
    if (there_.size() < needed_) return std::vector<Decision>();
    const std::vector<std::uint32_t> members(there_.begin(), there_.end());
    there_.clear();
    return std::vector<Decision>{{.applied = members, .dropped = {}, .answered = members, .tells = true}};
  }

  std::vector<std::uint32_t> go_on() override { return all_of(workers_); }

 private:
  const std::size_t workers_;
  const std::size_t needed_;
  std::set<std::uint32_t> there_;  ///< whose gradients of the present version have come
};

/// Of the others: keeps pushes until the first server has decided about their version.
class AsDecided final : public servers::PushRule {
 public:
  AsDecided(std::size_t workers, std::size_t needed, std::uint64_t version)
      : workers_(workers), needed_(needed), present_(version) {}

  Result<std::vector<Decision>> arrived(std::uint32_t worker, std::uint64_t version, std::uint64_t) override {
    held_[worker] = version;
    return progress();
  }

  Result<std::vector<Decision>> decided(std::uint64_t version, std::span<const std::uint32_t> members) override {
    if (version != next() || members.size() != needed_)
      return Error{Errc::malformed, "it is not about the next version"};
    coming_.push_back({version, {members.begin(), members.end()}});
    return progress();
  }

  std::vector<std::uint32_t> go_on() override { return all_of(workers_); }

 private:
  struct Version {
    std::uint64_t version = 0;
    std::vector<std::uint32_t> members;
  };

  /// The version that the first server decides about next.
  std::uint64_t next() const { return coming_.empty() ? present_ : coming_.back().version + 1; }

  std::vector<Decision> progress() {
    std::vector<Decision> decisions;
    const auto is_there = [&](std::uint32_t member) {
      const auto held = held_.find(member);
      return held != held_.end() && held->second == coming_.front().version;
    };
    while (!coming_.empty() && std::ranges::all_of(coming_.front().members, is_there)) {
      const auto& members = coming_.front().members;
      for (const auto member : members) held_.erase(member);
      present_ = coming_.front().version + 1;
      decisions.push_back({.applied = members, .dropped = {}, .answered = members});
      coming_.pop_front();
    }
    drop_late(decisions);
    return decisions;
  }

  /// Those of versions that have been decided without them.
  void drop_late(std::vector<Decision>& decisions) {
    Decision late;
    for (auto held = held_.begin(); held != held_.end();) {
      const auto& [worker, version] = *held;
      const auto of = std::ranges::find(coming_, version, &Version::version);
      const bool counts = of != coming_.end() && std::ranges::count(of->members, worker) > 0;
      const bool open = of == coming_.end() && version >= next();
      if (counts || open) {
        ++held;
        continue;
      }
      late.dropped.push_back(worker);
      late.answered.push_back(worker);
      held = held_.erase(held);
    }
    if (!late.dropped.empty()) decisions.push_back(late);
  }

  const std::size_t workers_;
  const std::size_t needed_;
  std::map<std::uint32_t, std::uint64_t> held_;  ///< by worker: the version that its push is for
  std::deque<Version> coming_;                   ///< that the first server has decided about
  std::uint64_t present_;                        ///< how many versions there are
};

}  // namespace

protocol::Params<Backup::Options> Backup::params() {
  return protocol::Params<Options>()
      .integer("servers", &Options::servers, {.minimum = 1, .maximum = 1024},
               "Processes that hold the model, each some of its tensors.")
      .integer("backup_workers", &Options::backup_workers, {.minimum = 0, .maximum = 65535},
               "How many of the workers' gradients a step does without.");
}

Result<std::uint32_t> Backup::gradients_per_step(std::uint32_t workers) const {
  if (options_.backup_workers < workers) return workers - static_cast<std::uint32_t>(options_.backup_workers);
  return Error{Errc::invalid_argument, "training.params.backup_workers " + std::to_string(options_.backup_workers) +
                                           " leaves none of " + std::to_string(workers) + " workers"};
}

std::unique_ptr<servers::PushRule> Backup::rule(const servers::RuleSetting& setting) const {
  const std::size_t workers = setting.clocks.size();
  const std::size_t needed = workers - static_cast<std::size_t>(options_.backup_workers);
  if (setting.first) return std::make_unique<FirstOnes>(workers, needed);
  return std::make_unique<AsDecided>(workers, needed, setting.version);
}

}  // namespace weir::training
