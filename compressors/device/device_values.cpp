#include "compressors/device/device_values.hpp"

#include <algorithm>

#include "base/ensure.hpp"
#include "compressors/device/launching.hpp"
#include "cuda/kernels/cut.hpp"
#include "cuda/kernels/finite.hpp"
#include "cuda/kernels/sample.hpp"
#include "cuda/kernels/selection.hpp"
#include "cuda/memory.hpp"

namespace weir::compressors::device {
namespace {

/// Room on the device for a selection among the values of a tensor.
class Found {
 public:
  Found(const at::Tensor& among, std::size_t limit)
      : limit_(std::min(limit, size_of(among))),
        positions_(scratch(among, limit_ * sizeof(std::uint32_t))),
        values_(scratch(among, limit_ * sizeof(float))),
        selected_(scratch(among, sizeof(cuda::Selected))),
        places_(scratch(among, cuda::PlaceScratch::bytes(size_of(among)))) {}

  Result<void> clear(cuda::StreamHandle stream) const {
    return cuda::fill_bytes(place<std::byte>(selected_), sizeof(cuda::Selected), std::byte{0}, stream);
  }
  cuda::Selection room() const {
    return {.positions = place<std::uint32_t>(positions_),
            .values = place<float>(values_),
            .limit = limit_,
            .selected = place<cuda::Selected>(selected_)};
  }
  cuda::PlaceScratch places() const { return {.at = place<std::byte>(places_)}; }

  /// Brings down what was selected: how many entries first, and then these. False if there was no room for all.
  bool bring_down(Selection& out) const {
    const auto selected = read<cuda::Selected>(selected_);
    out.clear();
    if (selected.count > limit_) return false;
    out.resize(selected.count);
    const at::Tensor positions = fetch(positions_, out.size() * sizeof(std::uint32_t));
    const at::Tensor values = fetch(values_, out.size() * sizeof(float));
    if (out.size() == 0) return true;
    wait(positions_);
    std::memcpy(out.positions.data(), positions.data_ptr(), out.size() * sizeof(std::uint32_t));
    std::memcpy(out.values.data(), values.data_ptr(), out.size() * sizeof(float));
    return true;
  }

 private:
  const std::size_t limit_;
  const at::Tensor positions_;
  const at::Tensor values_;
  const at::Tensor selected_;
  const at::Tensor places_;
};

}  // namespace

Result<std::uint32_t> DeviceValues::sampled_cut(const StridedSample& sample, std::size_t rank) const {
  const at::Tensor sampled = scratch(tensor_, sample.count * sizeof(float));
  const at::Tensor search = scratch(tensor_, cuda::CutScratch::bytes(sample.count));
  const at::Tensor cut = scratch(tensor_, sizeof(cuda::Cut));
  auto done =
      cuda::sampled_cut(place<float>(tensor_), {sample.first, sample.stride, sample.count}, rank, place<float>(sampled),
                        {place<std::byte>(search)}, place<cuda::Cut>(cut), current_handle(tensor_));
  if (!done) return done.error();
  return read<cuda::Cut>(cut).magnitude;
}

Result<bool> DeviceValues::collect(std::uint32_t least, std::size_t limit, Selection& out) const {
  const auto stream = current_handle(tensor_);
  const Found found(tensor_, limit);
  auto done = found.clear(stream);
  if (done) done = cuda::collect(place<float>(tensor_), size(), least, found.room(), found.places(), stream);
  if (!done) return done.error();
  return found.bring_down(out);
}

Result<void> DeviceValues::select_largest(std::size_t count, Selection& out) const {
  const auto stream = current_handle(tensor_);
  const at::Tensor search = scratch(tensor_, cuda::CutScratch::bytes(size()));
  const at::Tensor cut = scratch(tensor_, sizeof(cuda::Cut));
  const Found found(tensor_, count);
  auto done = found.clear(stream);
  if (done) {
    done = cuda::find_cut(place<float>(tensor_), size(), {.rank = count}, bins_, {place<std::byte>(search)},
                          place<cuda::Cut>(cut), stream);
  }
  if (done) {
    done = cuda::take(place<float>(tensor_), size(), place<cuda::Cut>(cut), found.room(), found.places(), stream);
  }
  if (!done) return done;
  ensure(found.bring_down(out), "no more entries than were asked for");
  return {};
}

Result<NonFinite> DeviceValues::first_non_finite() const {
  const at::Tensor first = scratch(tensor_, sizeof(unsigned long long));
  auto done =
      cuda::find_non_finite(place<float>(tensor_), size(), place<unsigned long long>(first), current_handle(tensor_));
  if (!done) return done.error();
  const auto at = static_cast<std::size_t>(read<unsigned long long>(first));
  if (at >= size()) return NonFinite{at, 0};
  const at::Tensor value = tensor_.view({-1}).narrow(0, static_cast<std::int64_t>(at), 1).to(at::kCPU);
  return NonFinite{at, *value.data_ptr<float>()};
}

std::span<const float> DeviceValues::on_host() const {
  ensure(false, "only compressors that choose there are given values on a device");
  return {};
}

}  // namespace weir::compressors::device
