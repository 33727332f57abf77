#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/records.hpp"
#include "cluster/scheduler.hpp"

namespace weir::cluster {

/// The jobs that wait for their workers' places, and whose turn it is. Jobs of higher priority go first, then the
/// older ones. The first job in that order which only waits for room blocks all after it, so that none overtakes it;
/// one that would not fit the cluster even if it were idle holds up nobody: it is set aside until the cluster
/// grows. Owned by Jobs; on the head's strand.
class JobQueue {
 public:
  struct Turn {
    std::int32_t priority = 0;
    std::uint64_t order = 0;  ///< of submission

    friend bool operator<(const Turn& a, const Turn& b) {
      return a.priority != b.priority ? a.priority > b.priority : a.order < b.order;
    }
  };

  /// A job that begins now.
  struct Start {
    std::string job_id;
    Turn turn;
    std::vector<std::string> nodes;  ///< node id by rank
  };

  void add(std::string job_id, Turn turn, Gang gang);
  /// False if the job does not wait.
  bool remove(const std::string& job_id);

  /// Takes out the next job that fits, or nothing if the first one waits for room. To be called until nothing comes,
  /// with the offers as they then are. `growth`: NodeTable::growth(). A pass of calls looks at the jobs it starts, at
  /// those it sets aside, and at one more, however many wait.
  std::optional<Start> next(std::span<const NodeOffer> offers, std::uint64_t growth);

  /// Fills in why jobs wait, for those of them that do: made anew for each call, equal gangs explained once. Empty: the
  /// job's turn is now.
  void fill_reasons(std::span<JobRecord> jobs, std::span<const NodeOffer> offers) const;

  /// Up to `count` jobs in the order of their turns, those set aside last.
  std::vector<std::string> first(std::size_t count) const;

  std::size_t size() const { return turns_.size(); }
  /// How often a placement has been tried, since the beginning.
  std::uint64_t attempts() const { return attempts_; }

 private:
  struct Entry {
    std::string job_id;
    Gang gang;
  };

  std::map<Turn, Entry> line_;       ///< may fit when their turn comes
  std::map<Turn, Entry> set_aside_;  ///< do not fit, when idle, what there was at growth_
  std::map<std::string, Turn> turns_;
  std::uint64_t growth_ = 0;
  std::uint64_t attempts_ = 0;
};

}  // namespace weir::cluster
