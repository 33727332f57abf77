#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cluster/records.hpp"
#include "cluster/scheduler.hpp"

namespace weir::cluster {

/// The jobs that wait for room for their workers, in order of priority and then of age. The first job in that order
/// that fits the idle cluster but not the room there is now blocks all after it, so that none overtakes it. A job that
/// would not fit even the idle cluster blocks nobody: it is set aside until the cluster grows. Owned by Jobs; used on
/// the head's strand.
class JobQueue {
 public:
  struct Turn {
    std::int32_t priority = 0;
    std::uint64_t order = 0;  ///< order of submission

    friend bool operator<(const Turn& a, const Turn& b) {
      return a.priority != b.priority ? a.priority > b.priority : a.order < b.order;
    }
  };

  /// A job that starts now.
  struct Start {
    std::string job_id;
    Turn turn;
    std::vector<std::string> nodes;  ///< node id by rank
  };

  void add(std::string job_id, Turn turn, Gang gang);
  /// Returns false if the job is not in the queue.
  bool remove(const std::string& job_id);

  /// Removes and returns the next job that fits; nothing if the first one has to wait for room, or if its turn is after
  /// `first_back`, that of a job which has lost a worker and will want its room back. Call it until it returns nothing,
  /// each time with the present offers and `growth` = NodeTable::growth(). All these calls together look at the jobs
  /// they start, those they set aside, and one more, however many wait. They try the placement of a gang that the idle
  /// cluster cannot take once until the cluster grows, however many jobs have an equal one.
  std::optional<Start> next(std::span<const NodeOffer> offers, std::uint64_t growth,
                            std::optional<Turn> first_back = std::nullopt);

  /// Sets the reason to wait of those `jobs` that are in the queue; empty for a job whose turn is now. The texts are
  /// made anew in each call, once for equal gangs.
  void fill_reasons(std::span<JobRecord> jobs, std::span<const NodeOffer> offers) const;

  /// The ids of up to `count` jobs in the order of their turns, those set aside last.
  std::vector<std::string> first(std::size_t count) const;

  std::size_t size() const { return turns_.size(); }
  /// The number of placements tried so far.
  std::uint64_t attempts() const { return attempts_; }

 private:
  struct Entry {
    std::string job_id;
    Gang gang;
  };

  std::map<Turn, Entry> line_;       ///< may fit when their turn comes
  std::map<Turn, Entry> set_aside_;  ///< did not fit the idle cluster at growth_
  std::set<Gang> impossible_;        ///< gangs that did not fit the idle cluster at growth_; bounded
  std::map<std::string, Turn> turns_;
  std::uint64_t growth_ = 0;
  std::uint64_t attempts_ = 0;
};

}  // namespace weir::cluster
