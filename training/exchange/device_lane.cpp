#include "training/exchange/device_lane.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "training/exchange/agreement.hpp"

namespace weir::training {
namespace {

using collectives::Task;

Task<> join_to(collectives::Communicator& lane, cuda::NcclOptions options, std::unique_ptr<cuda::Nccl>& to) {
  auto joined = co_await cuda::join_nccl(lane, std::move(options));
  if (!joined) co_return joined.error();
  to = std::move(*joined);
  co_return Result<void>();
}

/// What the first rank tells that tells something.
std::string first_of(const std::vector<std::string>& told) {
  const auto some = std::ranges::find_if(told, [](const std::string& sentence) { return !sentence.empty(); });
  return some == told.end() ? std::string() : *some;
}

}  // namespace

Result<std::unique_ptr<DeviceLane>> DeviceLane::join(collectives::Fabric& fabric, at::Device device,
                                                     cuda::NcclOptions options) {
  options.gpu = device.index();
  std::unique_ptr<DeviceLane> made(new DeviceLane(fabric, fabric.lanes() - 1));
  const auto joined = fabric.thread().run(
      [&]() -> Task<> { return join_to(fabric.lane(made->lane_), std::move(options), made->nccl_); });
  if (!joined) return joined.error();
  return made;
}

Result<DeviceLane::OfHosts> DeviceLane::join_hosts(collectives::Fabric& fabric, at::Device device,
                                                   const std::string& unable, cuda::NcclOptions options) {
  ensure(fabric.lanes() > 1, "a lane that no bucket needs");
  options.gpu = device.index();
  std::unique_ptr<DeviceLane> made(new DeviceLane(fabric, fabric.lanes() - 1));
  fabric.thread().call([&] { made->hosts_.emplace(fabric.lane(made->lane_)); });
  if (made->hosts_->count() == fabric.size()) return OfHosts();
  // None begins where one is known to be unable to: the others of its host would wait for it.
  auto told = tell_all(fabric, unable);
  if (!told) return told.error();
  if (std::string lacking = first_of(*told); !lacking.empty()) return OfHosts{nullptr, std::move(lacking)};

  const auto joined = made->join_within(std::move(options));
  if (auto failed = made->failure(); !failed) return failed.error();
  std::string own;
  if (!joined) {
    own = joined.error().context;
    // What a rank lacks names that rank already.
    if (joined.error().code != Errc::unsupported) own = "rank " + std::to_string(fabric.rank()) + ": " + own;
  }
  told = tell_all(fabric, std::move(own));
  if (!told) return told.error();
  if (std::string lacking = first_of(*told); !lacking.empty()) return OfHosts{nullptr, std::move(lacking)};
  return OfHosts{std::move(made), {}};
}

/// Among the ranks of this host, if there are several.
Result<void> DeviceLane::join_within(cuda::NcclOptions options) {
  auto& neighbours = hosts_->neighbours();
  if (neighbours.size() == 1) return {};
  return fabric_.thread().run([&]() -> Task<> { return join_to(neighbours, std::move(options), nccl_); });
}

/// Of the lane.
Result<void> DeviceLane::failure() const {
  Result<void> failed;
  fabric_.thread().call([&] {
    if (const Error* const error = fabric_.lane(lane_).failure()) failed = *error;
  });
  return failed;
}

DeviceLane::~DeviceLane() {
  if (!nccl_) return;
  if (failure()) (void)fabric_.thread().run([this] { return nccl_->close(); });
  fabric_.thread().call([this] { nccl_.reset(); });
}

}  // namespace weir::training
