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
  Result<void> clear_values(cuda::StreamHandle stream) const {
    return cuda::fill_bytes(place<std::byte>(values_), limit_ * sizeof(float), std::byte{0}, stream);
  }
  /// What was selected, after the next wait.
  at::Tensor fetch_selected() const { return fetch(selected_, sizeof(cuda::Selected)); }
  cuda::Selection room() const {
    return {.positions = place<std::uint32_t>(positions_),
            .values = place<float>(values_),
            .limit = limit_,
            .selected = place<cuda::Selected>(selected_)};
  }

  /// Brings down what was selected, and returns how many entries that is; nothing but their number if there was not
  /// room for all. Waits, once if they are no more than `likely`, of which all come down, and else twice.
  std::size_t bring_down(std::size_t likely, Selection& out) const {
    const std::size_t first = std::min(likely, limit_);
    const at::Tensor selected = fetch(selected_, sizeof(cuda::Selected));
    const at::Tensor positions = fetch(positions_, first * sizeof(std::uint32_t));
    const at::Tensor values = fetch(values_, first * sizeof(float));
    wait(selected_);
    const std::size_t count = place<cuda::Selected>(selected)->count;
    if (count > limit_) return count;
    out.resize(count);
    copy_out(positions, out.positions, 0, std::min(first, count));
    copy_out(values, out.values, 0, std::min(first, count));
    if (count > first) {
      const at::Tensor more_positions = fetch_behind(positions_, first, count);
      const at::Tensor more_values = fetch_behind(values_, first, count);
      wait(selected_);
      copy_out(more_positions, out.positions, first, count - first);
      copy_out(more_values, out.values, first, count - first);
    }
    return count;
  }

 private:
  /// Positions and values have four bytes each.
  static at::Tensor fetch_behind(const at::Tensor& from, std::size_t first, std::size_t count) {
    const auto bytes = static_cast<std::int64_t>(4 * (count - first));
    return fetch(from.narrow(0, static_cast<std::int64_t>(4 * first), bytes), static_cast<std::size_t>(bytes));
  }
  template <class T>
  static void copy_out(const at::Tensor& from, std::vector<T>& to, std::size_t first, std::size_t count) {
    if (count > 0) std::memcpy(to.data() + first, from.data_ptr(), count * sizeof(T));
  }

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
  found.bring_down(blocks.count() * of_block, out);
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
  // Who gives a limit expects a quarter of that, and who gives none seldom gets many.
  const std::size_t likely = std::min({3 * (limit / 8) + 1, size() / 64 + 512, std::size_t{32'768}});
  // Where more are found than there is room for, there is then room for all.
  for (std::size_t room = std::min(limit, size() / 16 + 1024);;) {
    const Found found(tensor_, room);
    auto done = found.clear(stream);
    if (done) {
      done = cuda::collect(place<float>(tensor_), size(), least, found.room(), {place<std::byte>(places)}, stream);
    }
    if (!done) return done.error();
    const std::size_t count = found.bring_down(likely, out);
    if (count > limit) return false;
    if (count <= room) return true;
    room = count;
  }
}

Result<bool> DeviceValues::select_among_candidates(std::size_t count, Selection& out) const {
  const std::size_t room = 8 * count + 4096;  // of normally distributed values, a thousandth has four candidates each
  if (room > size() / 4) return false;
  const auto stream = current_handle(tensor_);
  const at::Tensor search = scratch(tensor_, cuda::CutScratch::bytes(room));
  const at::Tensor cut = scratch(tensor_, sizeof(cuda::Cut));
  const at::Tensor places = scratch(tensor_, cuda::PlaceScratch::bytes(size()));
  const Found candidates(tensor_, room);
  const Found found(tensor_, count);
  auto done = candidates.clear(stream);
  if (done) done = candidates.clear_values(stream);
  if (done) done = found.clear(stream);
  if (done) {
    done = cuda::find_cut(place<float>(tensor_), size(), {.rank = count, .kind = cuda::Rank::Kind::rough}, bins_,
                          {place<std::byte>(search)}, place<cuda::Cut>(cut), stream);
  }
  if (done) {
    done = cuda::take(place<float>(tensor_), size(), place<cuda::Cut>(cut), candidates.room(),
                      {place<std::byte>(places)}, stream);
  }
  // Behind the candidates are zeros, which are never selected.
  const cuda::Selection among = candidates.room();
  if (done) {
    done = cuda::find_cut(among.values, room, {.rank = count}, nullptr, {place<std::byte>(search)},
                          place<cuda::Cut>(cut), stream);
  }
  if (done) {
    done = cuda::trim(among.positions, among.values, room, place<cuda::Cut>(cut), found.room(),
                      {place<std::byte>(places)}, stream);
  }
  if (!done) return done.error();
  const at::Tensor there = candidates.fetch_selected();
  found.bring_down(count, out);
  return place<cuda::Selected>(there)->count <= room;
}

Result<void> DeviceValues::select_largest(std::size_t count, Selection& out) const {
  const auto selected = select_among_candidates(count, out);
  if (!selected) return selected.error();
  return *selected ? Result<void>() : select_among_all(count, out);
}

Result<void> DeviceValues::select_among_all(std::size_t count, Selection& out) const {
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
  const std::size_t selected = found.bring_down(count, out);
  ensure(selected <= count, "no more entries than were asked for");
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
