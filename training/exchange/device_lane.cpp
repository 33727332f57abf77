#include "training/exchange/device_lane.hpp"

#include <utility>

namespace weir::training {
namespace {

using collectives::Task;

Task<> join_to(collectives::Communicator& lane, cuda::NcclOptions options, std::unique_ptr<cuda::Nccl>& to) {
  auto joined = co_await cuda::join_nccl(lane, std::move(options));
  if (!joined) co_return joined.error();
  to = std::move(*joined);
  co_return Result<void>();
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

DeviceLane::~DeviceLane() {
  if (!nccl_) return;
  bool failed = false;
  fabric_.thread().call([&] { failed = fabric_.lane(lane_).failure() != nullptr; });
  if (!failed) (void)fabric_.thread().run([this] { return nccl_->close(); });
  fabric_.thread().call([this] { nccl_.reset(); });
}

}  // namespace weir::training
