#include "compressors/device/device_values.hpp"

#include <algorithm>

#include "base/ensure.hpp"
#include "compressors/device/cosines.hpp"
#include "compressors/device/launching.hpp"
#include "cuda/kernels/blocks.hpp"
#include "cuda/kernels/cut.hpp"
#include "cuda/kernels/draw.hpp"
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
        selected_(scratch(among, sizeof(cuda::Selected))) {}

  Result<void> clear(cuda::StreamHandle stream) const {
    return cuda::fill_bytes(place<std::byte>(selected_), sizeof(cuda::Selected), std::byte{0}, stream);
  }
  cuda::Selection room() const {
    return {.positions = place<std::uint32_t>(positions_),
            .values = place<float>(values_),
            .limit = limit_,
            .selected = place<cuda::Selected>(selected_)};
  }

  /// How many were selected. Waits.
  std::size_t count() const { return read<cuda::Selected>(selected_).count; }
  /// Brings down all that were selected: `count` entries, for which there was room. Waits.
  void bring_down(std::size_t count, Selection& out) const {
    out.resize(count);
    if (count == 0) return;
    const at::Tensor positions = fetch(positions_, count * sizeof(std::uint32_t));
    const at::Tensor values = fetch(values_, count * sizeof(float));
    wait(positions_);
    std::memcpy(out.positions.data(), positions.data_ptr(), count * sizeof(std::uint32_t));
    std::memcpy(out.values.data(), values.data_ptr(), count * sizeof(float));
  }

 private:
  const std::size_t limit_;
  const at::Tensor positions_;
  const at::Tensor values_;
  const at::Tensor selected_;
};

/// Selects of each block of a tensor.
template <class Blocks>
Result<void> select_of(const Blocks& blocks, std::size_t of_block, const at::Tensor& tensor, Selection& out) {
  const auto stream = current_handle(tensor);
  const at::Tensor places = scratch(tensor, cuda::BlockScratch::bytes(blocks.count()));
  const Found found(tensor, blocks.count() * of_block);
  auto done = found.clear(stream);
  if (done) {
    done = cuda::select_of_blocks(place<float>(tensor), blocks, of_block, found.room(), {place<std::byte>(places)},
                                  stream);
  }
  if (!done) return done;
  found.bring_down(found.count(), out);
  return {};
}

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

Result<void> DeviceValues::sample_magnitudes(const SampledRuns& runs, std::vector<float>& out) const {
  out.resize(runs.count * runs.length);
  const at::Tensor sampled = scratch(tensor_, out.size() * sizeof(float));
  auto done = cuda::sample_magnitudes(place<float>(tensor_), {runs.length, runs.distance, runs.count},
                                      place<float>(sampled), current_handle(tensor_));
  if (!done) return done;
  const at::Tensor below = fetch(sampled, out.size() * sizeof(float));
  wait(sampled);
  std::memcpy(out.data(), below.data_ptr(), out.size() * sizeof(float));
  return {};
}

Result<bool> DeviceValues::collect(std::uint32_t least, std::size_t limit, Selection& out) const {
  const auto stream = current_handle(tensor_);
  const at::Tensor places = scratch(tensor_, cuda::PlaceScratch::bytes(size()));
  out.clear();
  // Who asks without a limit seldom gets many: where more are found than there is room for, there is then room for all.
  for (std::size_t room = std::min(limit, size() / 16 + 1024);;) {
    const Found found(tensor_, room);
    auto done = found.clear(stream);
    if (done) {
      done = cuda::collect(place<float>(tensor_), size(), least, found.room(), {place<std::byte>(places)}, stream);
    }
    if (!done) return done.error();
    const std::size_t count = found.count();
    if (count > limit) return false;
    if (count <= room) {
      found.bring_down(count, out);
      return true;
    }
    room = count;
  }
}

Result<void> DeviceValues::select_largest(std::size_t count, Selection& out) const {
  const auto stream = current_handle(tensor_);
  const at::Tensor search = scratch(tensor_, cuda::CutScratch::bytes(size()));
  const at::Tensor cut = scratch(tensor_, sizeof(cuda::Cut));
  const at::Tensor places = scratch(tensor_, cuda::PlaceScratch::bytes(size()));
  const Found found(tensor_, count);
  auto done = found.clear(stream);
  if (done) {
    done = cuda::find_cut(place<float>(tensor_), size(), {.rank = count}, bins_, {place<std::byte>(search)},
                          place<cuda::Cut>(cut), stream);
  }
  if (done) {
    done = cuda::take(place<float>(tensor_), size(), place<cuda::Cut>(cut), found.room(), {place<std::byte>(places)},
                      stream);
  }
  if (!done) return done;
  const std::size_t selected = found.count();
  ensure(selected <= count, "no more entries than were asked for");
  found.bring_down(selected, out);
  return {};
}

Result<void> DeviceValues::select_of_blocks(std::size_t block, std::size_t of_block, Selection& out) const {
  return select_of(cuda::Blocks{.n = size(), .length = block}, of_block, tensor_, out);
}

Result<void> DeviceValues::select_of_blocks(const BlockGrid& grid, std::size_t of_block, Selection& out) const {
  return select_of(of_kernels(grid), of_block, tensor_, out);
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

Result<MagnitudeSums> DeviceValues::magnitude_sums(std::uint32_t below) const {
  const at::Tensor parts = scratch(tensor_, cuda::magnitude_sum_parts(size()) * sizeof(cuda::MagnitudeSums));
  const at::Tensor sums = scratch(tensor_, sizeof(cuda::MagnitudeSums));
  auto done = cuda::magnitude_sums(place<float>(tensor_), size(), below, place<cuda::MagnitudeSums>(parts),
                                   place<cuda::MagnitudeSums>(sums), current_handle(tensor_));
  if (!done) return done.error();
  const auto found = read<cuda::MagnitudeSums>(sums);
  return MagnitudeSums{found.sum, found.largest, static_cast<std::size_t>(found.nonzeros)};
}

Result<void> DeviceValues::draw(const RandomKey& key, float level, Selection& out) const {
  const at::Tensor drawn = at::empty({tensor_.numel()}, tensor_.options());
  auto done = cuda::draw_by_magnitude(place<float>(tensor_), size(), {key.seed, key.step, key.tensor, key.stream},
                                      level, place<float>(drawn), current_handle(tensor_));
  if (!done) return done;
  const auto collected = DeviceValues(drawn, nullptr).collect(1, size(), out);
  return collected ? Result<void>() : collected.error();
}

}  // namespace weir::compressors::device
