#include "cluster/store_probe.hpp"

#include <chrono>
#include <utility>

namespace weir::cluster {
namespace {

constexpr std::chrono::seconds retry_interval{1};  // between two tries to write to a store that fails

}  // namespace

net::awaitable<Result<void>> StoreProbe::ask() {
  const auto now = services_.clock.now();
  if (!answer_ && now - asked_ < retry_interval) co_return answer_;
  asked_ = now;
  std::vector<Change> nothing;
  answer_ = co_await services_.store->commit(std::move(nothing));
  co_return answer_;
}

}  // namespace weir::cluster
