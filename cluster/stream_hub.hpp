#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/store.hpp"
#include "cluster/stream.hpp"

namespace weir::runtime {
class Clock;
}

namespace weir::cluster {

/// Hands what the store has committed to the subscribers. Owned by the head; any thread may call it. The store must
/// outlive it; subscriptions may outlive the hub.
class StreamHub {
 public:
  /// `newest`: the last sequence number in the store.
  StreamHub(std::shared_ptr<Store> store, runtime::Clock& clock, std::uint64_t newest);
  ~StreamHub();

  /// Items in sequence order, as the store's observer gives them, or transient ones (sequence 0).
  void publish(const std::vector<StreamItem>& items);

  /// Which jobs somebody watches now.
  struct Watched {
    bool all = false;
    std::set<std::string> ids;  ///< those watched by themselves
  };
  Watched watched_jobs();

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
