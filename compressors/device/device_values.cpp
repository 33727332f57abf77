#include "compressors/device/device_values.hpp"

#include <algorithm>
#include <utility>

#include "base/ensure.hpp"
#include "compressors/device/cosines.hpp"
#include "compressors/device/launching.hpp"
#include "cuda/event.hpp"
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

  /// What is on its way to the host of a selection: how many entries there are, and the first ones.
  struct Coming {
    std::size_t first = 0;
    at::Tensor selected;
    at::Tensor positions;
    at::Tensor values;
  };

  /// `likely`: so many entries come at once.
  Coming begin_down(std::size_t likely) const {
    const std::size_t first = std::min(likely, limit_);
    return {first, fetch_selected(), fetch(positions_, first * sizeof(std::uint32_t)),
            fetch(values_, first * sizeof(float))};
  }
  /// When they have come: returns how many entries were selected, and `out` has them unless there was not room for all.
  /// Waits if there are more than have come.
  std::size_t finish_down(const Coming& coming, Selection& out) const {
    const std::size_t first = coming.first;
    const std::size_t count = place<cuda::Selected>(coming.selected)->count;
    if (count > limit_) return count;
    out.resize(count);
    copy_out(coming.positions, out.positions, 0, std::min(first, count));
    copy_out(coming.values, out.values, 0, std::min(first, count));
    if (count > first) {
      const at::Tensor more_positions = fetch_behind(positions_, first, count);
      const at::Tensor more_values = fetch_behind(values_, first, count);
      wait(selected_);
      copy_out(more_positions, out.positions, first, count - first);
      copy_out(more_values, out.values, first, count - first);
    }
    return count;
  }
  /// Both, one after the other.
  std::size_t bring_down(std::size_t likely, Selection& out) const {
    const Coming coming = begin_down(likely);
    wait(selected_);
    return finish_down(coming, out);
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

  std::size_t limit_;
  at::Tensor positions_;
  at::Tensor values_;
  at::Tensor selected_;
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

/// How many of the entries that a magnitude selects among `entries` come down at once: who gives a limit expects a
/// quarter of that, and who gives none seldom gets many.
std::size_t likely_of(std::size_t limit, std::size_t entries) {
  return std::min({3 * (limit / 8) + 1, entries / 64 + 512, std::size_t{32'768}});
}

/// How many of them there is room for at first.
std::size_t room_for(std::size_t limit, std::size_t entries) { return std::min(limit, entries / 16 + 1024); }

}  // namespace

struct Selecting::Work {
  Found found;
  Found::Coming coming;
  at::Tensor told;  ///< in the host's memory: the cut of a sample, or how many candidates there are
  std::size_t told_max = 0;
  cuda::Event come;

  /// What has been put into the stream of `tensor`, up to here.
  static Result<std::shared_ptr<const Work>> of(Found found, std::size_t likely, at::Tensor told, std::size_t told_max,
                                                const at::Tensor& tensor) {
    auto come = cuda::Event::make_untimed();
    if (!come) return come.error();
    auto coming = found.begin_down(likely);
    if (auto recorded = come->record(current_handle(tensor)); !recorded) return recorded.error();
    return std::make_shared<const Work>(
        Work{std::move(found), std::move(coming), std::move(told), told_max, std::move(*come)});
  }
};

Result<Selecting> Selecting::collect_by_sample(const at::Tensor& tensor, const SampledRank& ranked, std::size_t limit) {
  const auto stream = current_handle(tensor);
  const auto& [first, stride, count] = ranked.sample;
  const at::Tensor sampled = scratch(tensor, count > cuda::small_cut_max ? count * sizeof(float) : 0);
  const at::Tensor search = scratch(tensor, cuda::CutScratch::bytes(count));
  const at::Tensor cut = scratch(tensor, sizeof(cuda::Cut));
  const at::Tensor places = scratch(tensor, cuda::PlaceScratch::bytes(size_of(tensor)));
  Found found(tensor, room_for(limit, size_of(tensor)));
  auto done = found.clear(stream);
  if (done) {
    done = cuda::sampled_cut(place<float>(tensor), {first, stride, count}, ranked.rank, place<float>(sampled),
                             {place<std::byte>(search)}, place<cuda::Cut>(cut), stream);
  }
  if (done) {
    done = cuda::take(place<float>(tensor), size_of(tensor), place<cuda::Cut>(cut), found.room(),
                      {place<std::byte>(places)}, stream);
  }
  if (!done) return done.error();
  at::Tensor told = fetch(cut, sizeof(cuda::Cut));
  auto work = Work::of(std::move(found), likely_of(limit, size_of(tensor)), std::move(told), 0, tensor);
  if (!work) return work.error();
  Selecting selecting;
  selecting.by_sample_ = std::move(*work);
  return selecting;
}

/// In one pass after the bins: entries that have the upper part of their magnitudes in common with the last one, or a
/// higher one, are copied aside, and the largest of these are selected.
Result<Selecting> Selecting::select_largest(const at::Tensor& tensor, const cuda::Bins* bins, std::size_t count) {
  const std::size_t entries = size_of(tensor);
  const std::size_t room = 8 * count + 4096;  // of normally distributed values, a thousandth has four candidates each
  if (room > entries / 4) return Selecting();
  const auto stream = current_handle(tensor);
  const at::Tensor search = scratch(tensor, cuda::CutScratch::bytes(room));
  const at::Tensor cut = scratch(tensor, sizeof(cuda::Cut));
  const at::Tensor places = scratch(tensor, cuda::PlaceScratch::bytes(entries));
  const Found candidates(tensor, room);
  Found found(tensor, count);
  auto done = candidates.clear(stream);
  if (done) done = candidates.clear_values(stream);
  if (done) done = found.clear(stream);
  if (done) {
    done = cuda::find_cut(place<float>(tensor), entries, {.rank = count, .kind = cuda::Rank::Kind::rough}, bins,
                          {place<std::byte>(search)}, place<cuda::Cut>(cut), stream);
  }
  if (done) {
    done = cuda::take(place<float>(tensor), entries, place<cuda::Cut>(cut), candidates.room(),
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
  auto work = Work::of(std::move(found), count, candidates.fetch_selected(), room, tensor);
  if (!work) return work.error();
  Selecting selecting;
  selecting.largest_ = std::move(*work);
  return selecting;
}

Result<CollectedBySample> DeviceValues::collect_by_sample(const SampledRank& ranked, std::size_t limit,
                                                          Selection& out) const {
  const auto selecting =
      begun_.by_sample_ ? Result<Selecting>(begun_) : Selecting::collect_by_sample(tensor_, ranked, limit);
  if (!selecting) return selecting.error();
  const Selecting::Work& work = *selecting->by_sample_;
  if (auto come = work.come.wait(); !come) return come.error();
  const std::uint32_t cut = place<cuda::Cut>(work.told)->magnitude;
  out.clear();
  const std::size_t count = work.found.finish_down(work.coming, out);
  if (count <= work.found.room().limit || count > limit) return CollectedBySample{cut, count <= limit};
  const auto complete = collect(std::max(cut, 1U), limit, out);
  if (!complete) return complete.error();
  return CollectedBySample{cut, *complete};
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
  const std::size_t likely = likely_of(limit, size());
  // Where more are found than there is room for, there is then room for all.
  for (std::size_t room = room_for(limit, size());;) {
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

Result<void> DeviceValues::select_largest(std::size_t count, Selection& out) const {
  const auto selecting = begun_.largest_ ? Result<Selecting>(begun_) : Selecting::select_largest(tensor_, bins_, count);
  if (!selecting) return selecting.error();
  const Selecting::Work* const work = selecting->largest_.get();
  if (work == nullptr) return select_among_all(count, out);
  if (auto come = work->come.wait(); !come) return come;
  if (place<cuda::Selected>(work->told)->count > work->told_max) return select_among_all(count, out);
  work->found.finish_down(work->coming, out);
  return {};
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
