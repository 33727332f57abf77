#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/store.hpp"
#include "cluster/stream.hpp"

namespace weir::runtime {
class Clock;
}

namespace weir::cluster {

/// Passes what the store has committed on to the subscribers. Owned by the head. Thread-safe. Subscriptions may outlive
/// the hub.
class StreamHub {
 public:
  /// `newest`: the last sequence number in the store.
  StreamHub(std::shared_ptr<Store> store, runtime::Clock& clock, std::uint64_t newest);
  ~StreamHub();

  /// Publishes items in sequence order, as the store's observer gets them, or transient ones (sequence 0).
  void publish(const std::vector<StreamItem>& items);

  /// The jobs that are watched by subscribers now.
  struct Watched {
    bool all = false;
    std::set<std::string> ids;  ///< jobs with subscribers of their own
  };
  Watched watched_jobs();
  /// Whether a subscriber would get an item of this kind now, about this job or (without an id) about the cluster.
  bool followed(StreamKind kind, std::string_view job_id);

  std::unique_ptr<Subscription> subscribe(Topics topics, std::optional<std::uint64_t> after);

  /// Ends every subscription with cancelled.
  void close();

  class Subscriber;

 private:
  std::shared_ptr<Store> store_;
  runtime::Clock& clock_;
  std::mutex mutex_;
  std::uint64_t newest_;
  bool closed_ = false;
  std::vector<std::weak_ptr<Subscriber>> subscribers_;
};

}  // namespace weir::cluster
