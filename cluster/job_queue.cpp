#include "cluster/job_queue.hpp"

#include <algorithm>
#include <utility>

#include "base/ensure.hpp"

namespace weir::cluster {
namespace {

constexpr std::size_t impossible_max = 1000;  // remembered gangs

}  // namespace

void JobQueue::add(std::string job_id, Turn turn, Gang gang) {
  ensure(turns_.emplace(job_id, turn).second, "a job waits once");
  line_.emplace(turn, Entry{std::move(job_id), std::move(gang)});
}

bool JobQueue::remove(const std::string& job_id) {
  const auto found = turns_.find(job_id);
  if (found == turns_.end()) return false;
  line_.erase(found->second);
  set_aside_.erase(found->second);
  turns_.erase(found);
  return true;
}

std::optional<JobQueue::Start> JobQueue::next(std::span<const NodeOffer> offers, std::uint64_t growth,
                                              std::optional<Turn> first_back) {
  if (std::exchange(growth_, growth) != growth) {
    line_.merge(set_aside_);
    impossible_.clear();
  }
  while (!line_.empty()) {
    const auto first = line_.begin();
    if (first_back && *first_back < first->first) break;
    if (!impossible_.contains(first->second.gang)) {
      ++attempts_;
      auto placement = place(first->second.gang, offers);
      if (placement.fits()) {
        Start start{std::move(first->second.job_id), first->first, std::move(placement.nodes)};
        line_.erase(first);
        turns_.erase(start.job_id);
        return start;
      }
      if (placement.possible) break;
      if (impossible_.size() == impossible_max) impossible_.clear();
      impossible_.insert(first->second.gang);
    }
    set_aside_.insert(line_.extract(first));
  }
  return std::nullopt;
}

void JobQueue::fill_reasons(std::span<JobRecord> jobs, std::span<const NodeOffer> offers) const {
  std::vector<std::pair<const Gang*, std::string>> obstacles;  // empty: the gang fits
  for (JobRecord& job : jobs) {
    const auto found = turns_.find(job.id);
    if (found == turns_.end()) continue;
    const auto waiting = line_.find(found->second);
    const Gang& gang = (waiting != line_.end() ? waiting->second : set_aside_.at(found->second)).gang;
    auto known =
        std::find_if(obstacles.begin(), obstacles.end(), [&gang](const auto& one) { return *one.first == gang; });
    if (known == obstacles.end()) {
      known = obstacles.emplace(known, &gang, place(gang, offers).fits() ? "" : explain(gang, offers));
    }
    const bool is_first = line_.empty() || !(line_.begin()->first < found->second);
    job.reason = known->second.empty() && !is_first ? "waits for jobs before it" : known->second;
  }
}

std::vector<std::string> JobQueue::first(std::size_t count) const {
  std::vector<std::string> found;
  for (const auto* jobs : {&line_, &set_aside_}) {
    for (auto job = jobs->begin(); job != jobs->end() && found.size() < count; ++job)
      found.push_back(job->second.job_id);
  }
  return found;
}

}  // namespace weir::cluster
