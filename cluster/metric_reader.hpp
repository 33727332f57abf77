#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/records.hpp"

namespace weir::cluster {

namespace net = boost::asio;

class Store;

/// Reads all recorded points of a job's series page by page, as they were when the reading began. On the step axis,
/// points superseded by a restart are left out, as in a down-sampled answer: a job that continues from a checkpoint
/// repeats the steps after it. Used by one coroutine at a time, on any executor.
class MetricReader {
 public:
  /// A part of one series. The series are sorted by name, the job's own before the workers'; each has at least one
  /// page, even if none of its points lies in the range asked for.
  struct Page {
    std::string name;
    std::optional<std::uint32_t> worker;
    std::vector<MetricBucket> points;  ///< oldest first; each holds one point: min, max and last are equal
  };

  virtual ~MetricReader() = default;

  /// The next page, of at most 4,096 points; nothing after the last one. Fails with: not_found (the job was deleted
  /// meanwhile), and the errors of the store.
  virtual net::awaitable<Result<std::optional<Page>>> next() = 0;
};

/// `restarted`: the job has continued from a checkpoint, so that a series may contain the same step twice.
net::awaitable<Result<std::unique_ptr<MetricReader>>> read_metrics(std::shared_ptr<Store> store, MetricQuery query,
                                                                   bool restarted);

}  // namespace weir::cluster
