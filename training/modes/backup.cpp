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
    if (version < present) {
      return std::vector<Decision>{{.applied = {}, .dropped = {worker}, .answered = {worker}, .tells = true}};
    }
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

/// Of the others: keeps pushes until the first server has decided about them, and answers late ones with the version
/// that the first server answered with, so that no worker's copy is of several versions.
class AsDecided final : public servers::PushRule {
 public:
  AsDecided(std::size_t workers, std::size_t needed, std::uint64_t version)
      : workers_(workers), needed_(needed), present_(version) {}

  Result<std::vector<Decision>> arrived(std::uint32_t worker, std::uint64_t version, std::uint64_t) override {
    held_[worker] = version;
    return progress();
  }

  Result<std::vector<Decision>> decided(std::uint64_t version, std::span<const std::uint32_t> members) override {
    if (version != decided_about() || members.size() != needed_)
      return Error{Errc::malformed, "it is not about the next version"};
    coming_.emplace_back(members.begin(), members.end());
    return progress();
  }

  Result<std::vector<Decision>> late(std::uint64_t version, std::uint32_t worker) override {
    if (version != decided_about() || !late_.emplace(worker, version).second)
      return Error{Errc::malformed, "it is not about the newest version, or of a worker that is late already"};
    return progress();
  }

  std::vector<std::uint32_t> go_on() override { return all_of(workers_); }

 private:
  /// How many versions there are by the first server's decisions.
  std::uint64_t decided_about() const { return present_ + coming_.size(); }

  Result<std::vector<Decision>> progress() {
    std::vector<Decision> decisions;
    const auto is_there = [&](std::uint32_t member) { return held_.contains(member); };
    while (!coming_.empty() && std::ranges::all_of(coming_.front(), is_there)) {
      const auto& members = coming_.front();
      for (const auto member : members) {
        if (const auto version = held_[member]; version != present_) {
          return Error{Errc::malformed, "the push of rank " + std::to_string(member) + " is for version " +
                                            std::to_string(version) + ", and the first server has counted it for " +
                                            std::to_string(present_)};
        }
        held_.erase(member);
      }
      decisions.push_back({.applied = members, .dropped = {}, .answered = members});
      coming_.pop_front();
      ++present_;
    }
    drop_late(decisions);
    return decisions;
  }

  void drop_late(std::vector<Decision>& decisions) {
    Decision drops;
    std::erase_if(late_, [&](const auto& one) {
      const auto [worker, version] = one;
      if (version > present_ || !held_.contains(worker)) return false;
      held_.erase(worker);
      drops.dropped.push_back(worker);
      drops.answered.push_back(worker);
      return true;
    });
    if (!drops.dropped.empty()) decisions.push_back(drops);
  }

  const std::size_t workers_;
  const std::size_t needed_;
  std::map<std::uint32_t, std::uint64_t> held_;    ///< by worker: the version that its push is for
  std::map<std::uint32_t, std::uint64_t> late_;    ///< by worker: the version that the first server answered with
  std::deque<std::vector<std::uint32_t>> coming_;  ///< the workers of the next versions
  std::uint64_t present_;                          ///< how many versions this server has made
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
