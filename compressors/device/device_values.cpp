#include "compressors/device/device_values.hpp"

#include <algorithm>
#include <utility>

#include "base/ensure.hpp"
#include "compressors/device/cosines.hpp"
#include "compressors/device/download.hpp"
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
        count_(scratch(among, sizeof(std::uint32_t))) {}

  Result<void> clear(cuda::StreamHandle stream) const {
    return cuda::fill_bytes(place<std::byte>(count_), sizeof(std::uint32_t), std::byte{0}, stream);
  }
  cuda::Selection room() const {
    return {.positions = place<std::uint32_t>(positions_),
            .values = place<float>(values_),
            .limit = limit_,
            .count = place<std::uint32_t>(count_)};
  }

  /// Returns how many entries were selected, and `out` has them unless there was not room for all. `likely`: so many
  /// come at once; waits again if there are more.
  std::size_t bring_down(std::size_t likely, Selection& out) const {
    const std::size_t first = std::min(likely, limit_);
    const at::Tensor counted = fetch(count_, sizeof(std::uint32_t));
    const at::Tensor positions = fetch(positions_, first * sizeof(std::uint32_t));
    const at::Tensor values = fetch(values_, first * sizeof(float));
    wait(count_);
    const std::size_t count = *place<std::uint32_t>(counted);
    if (count > limit_) return count;
    out.resize(count);
    copy_out(positions, out.positions, 0, std::min(first, count));
    copy_out(values, out.values, 0, std::min(first, count));
    if (count > first) {
      const at::Tensor more_positions = fetch_behind(positions_, first, count);
      const at::Tensor more_values = fetch_behind(values_, first, count);
      wait(count_);
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

  std::size_t limit_;
  at::Tensor positions_;
  at::Tensor values_;
  at::Tensor count_;
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

/// Among how many candidates the largest are looked for. Of normally distributed values, a thousandth has four
/// candidates each.
std::size_t candidates_of(std::size_t count) { return 8 * count + 4096; }

}  // namespace

/// What is selected of several tensors, on its way down: the positions and values for which there is room.
struct Selecting::Work {
  struct Head {
    cuda::Cut cut;
    std::uint32_t count = 0;       ///< of entries
    std::uint32_t candidates = 0;  ///< of select_largest()
  };
  struct Room {
    std::size_t entries = 0;
    std::size_t candidates = 0;
  };
  static constexpr std::size_t entry_bytes = sizeof(std::uint32_t) + sizeof(float);

  bool by_sample = false;
  std::vector<Room> rooms;
  Download down;

  static Result<Work> of(const at::Tensor& beside, bool by_sample, std::vector<Room> rooms) {
    std::vector<std::size_t> bytes;
    for (const Room& room : rooms) bytes.push_back(room.entries * entry_bytes);
    auto down = Download::make(beside, sizeof(Head), bytes);
    return down ? Result<Work>(Work{by_sample, std::move(rooms), std::move(*down)}) : down.error();
  }

  Head* head(std::size_t i) const { return reinterpret_cast<Head*>(down.head(i)); }
  cuda::Selection room(std::size_t i) const {
    auto* const positions = reinterpret_cast<std::uint32_t*>(down.body(i));
    return {.positions = positions,
            .values = reinterpret_cast<float*>(positions + rooms[i].entries),
            .limit = rooms[i].entries,
            .count = &head(i)->count};
  }

  static Result<std::vector<Selecting>> begin_down(Work work) {
    if (auto begun = work.down.begin(); !begun) return begun.error();
    const auto shared = std::make_shared<const Work>(std::move(work));
    std::vector<Selecting> all(shared->rooms.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].work_ = shared;
      all[i].index_ = i;
    }
    return all;
  }

  /// Below, as the functions that follow.
  const Head& found(std::size_t i) const { return *reinterpret_cast<const Head*>(down.head_below(i)); }
  bool has_all(std::size_t i) const { return found(i).count <= rooms[i].entries; }
  void read(std::size_t i, Selection& out) const {
    const std::size_t count = found(i).count;
    const std::byte* const positions = down.body_below(i);
    out.resize(count);
    if (count == 0) return;
    std::memcpy(out.positions.data(), positions, count * sizeof(std::uint32_t));
    std::memcpy(out.values.data(), positions + rooms[i].entries * sizeof(std::uint32_t), count * sizeof(float));
  }
};

Result<std::vector<Selecting>> Selecting::collect_by_sample(std::span<const BySample> tensors) {
  if (tensors.empty()) return std::vector<Selecting>();
  const at::Tensor& first = tensors.front().tensor;
  const auto stream = current_handle(first);
  std::vector<Work::Room> rooms;
  std::size_t largest_sample = 0;
  std::size_t place_bytes = 0;
  for (const auto& [tensor, ranked, limit] : tensors) {
    // Who gives a limit expects a quarter of that.
    rooms.push_back({.entries = std::min(room_for(3 * (limit / 8) + 1, size_of(tensor)), size_of(tensor))});
    if (ranked.sample.count > cuda::small_cut_max) largest_sample = std::max(largest_sample, ranked.sample.count);
    place_bytes += cuda::PlaceScratch::bytes(size_of(tensor));
  }
  auto work = Work::of(first, /*by_sample=*/true, std::move(rooms));
  if (!work) return work.error();
  const at::Tensor sampled = scratch(first, largest_sample * sizeof(float));
  const at::Tensor search = scratch(first, largest_sample > 0 ? cuda::CutScratch::bytes(largest_sample) : 0);
  const at::Tensor places = scratch(first, place_bytes);
  std::vector<cuda::SampledCut> cuts;
  std::vector<cuda::Taken> taken;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [tensor, ranked, limit] = tensors[i];
    const auto& [begin, stride, count] = ranked.sample;
    cuts.push_back({place<float>(tensor), {begin, stride, count}, ranked.rank, &work->head(i)->cut});
    taken.push_back({{place<float>(tensor), size_of(tensor)}, &work->head(i)->cut, work->room(i)});
  }
  auto done = cuda::sampled_cuts(cuts, place<float>(sampled), {place<std::byte>(search)}, stream);
  if (done) done = cuda::take(taken, {place<std::byte>(places)}, stream);
  return done ? Work::begin_down(std::move(*work)) : done.error();
}

Result<std::vector<Selecting>> Selecting::select_largest(std::span<const Largest> tensors) {
  std::vector<Largest> together;
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (candidates_of(tensors[i].count) > size_of(tensors[i].tensor) / 4) continue;
    together.push_back(tensors[i]);
    numbers.push_back(i);
  }
  std::vector<Selecting> all(tensors.size());
  if (together.empty()) return all;
  auto begun = select_in_one_pass(together);
  if (!begun) return begun.error();
  for (std::size_t i = 0; i < numbers.size(); ++i) all[numbers[i]] = std::move((*begun)[i]);
  return all;
}

/// After the bins, entries that have the upper part of their magnitudes in common with the last one, or a higher one,
/// are copied aside, and the largest of these are selected.
Result<std::vector<Selecting>> Selecting::select_in_one_pass(std::span<const Largest> tensors) {
  const at::Tensor& first = tensors.front().tensor;
  const auto stream = current_handle(first);
  std::vector<Work::Room> rooms;
  std::size_t candidates = 0;
  std::size_t most_candidates = 0;
  std::size_t uncounted = 0;
  std::size_t place_bytes = 0;
  for (const auto& [tensor, bins, count] : tensors) {
    rooms.push_back({.entries = count, .candidates = candidates_of(count)});
    candidates += rooms.back().candidates;
    most_candidates = std::max(most_candidates, rooms.back().candidates);
    uncounted += bins == nullptr ? 1 : 0;
    place_bytes += cuda::PlaceScratch::bytes(size_of(tensor));
  }
  auto work = Work::of(first, /*by_sample=*/false, std::move(rooms));
  if (!work) return work.error();
  const at::Tensor search = scratch(first, cuda::CutScratch::bytes(most_candidates));
  const at::Tensor places = scratch(first, place_bytes);
  const at::Tensor rough = scratch(first, tensors.size() * sizeof(cuda::Cut));
  const at::Tensor counts = scratch(first, uncounted * sizeof(cuda::Bins));
  const at::Tensor positions = scratch(first, candidates * sizeof(std::uint32_t));
  const at::Tensor values = scratch(first, candidates * sizeof(float));
  std::vector<cuda::Counted> counted;
  std::vector<cuda::RoughCut> rough_cuts;
  std::vector<cuda::Taken> aside;
  std::vector<cuda::SmallCut> small_cuts;
  std::vector<cuda::SmallCut> others;  // of more values
  std::vector<cuda::Taken> taken;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [tensor, bins, count] = tensors[i];
    const std::size_t room = work->rooms[i].candidates;
    const cuda::Bins* known = bins;
    if (known == nullptr) {
      counted.push_back({place<float>(tensor), size_of(tensor), place<cuda::Bins>(counts) + counted.size()});
      known = counted.back().bins;
    }
    Work::Head* const head = work->head(i);
    const cuda::Selection among{.positions = place<std::uint32_t>(positions) + begin,
                                .values = place<float>(values) + begin,
                                .limit = room,
                                .count = &head->candidates};
    rough_cuts.push_back({known, count, place<cuda::Cut>(rough) + i});
    aside.push_back({{place<float>(tensor), size_of(tensor)}, rough_cuts.back().cut, among});
    (room <= cuda::small_cut_max ? small_cuts : others)
        .push_back({.values = among.values, .n = room, .rank = count, .cut = &head->cut});
    taken.push_back({{among.values, room, among.positions}, &head->cut, work->room(i)});
    begin += room;
  }
  auto done = cuda::fill_bytes(place<std::byte>(counts), uncounted * sizeof(cuda::Bins), std::byte{0}, stream);
  // Behind the candidates are zeros, which are never selected.
  if (done) done = cuda::fill_bytes(place<std::byte>(values), candidates * sizeof(float), std::byte{0}, stream);
  if (done) done = cuda::count_magnitudes(counted, stream);
  if (done) done = cuda::find_rough_cuts(rough_cuts, stream);
  if (done) done = cuda::take(aside, {place<std::byte>(places)}, stream);
  if (done) done = cuda::find_small_cuts(small_cuts, stream);
  for (const auto& [from, stride, n, rank, takes_ties, cut] : others) {
    if (done) done = cuda::find_cut(from, n, {.rank = rank}, nullptr, {place<std::byte>(search)}, cut, stream);
  }
  if (done) done = cuda::take(taken, {place<std::byte>(places)}, stream);
  return done ? Work::begin_down(std::move(*work)) : done.error();
}

/// What has been begun, if it was by sample, or what `begin` begins of one tensor.
template <class Begin>
Result<Selecting> DeviceValues::selecting(bool by_sample, const Begin& begin) const {
  if (begun_ && begun_.work_->by_sample == by_sample) return begun_;
  auto all = begin();
  return all ? Result<Selecting>(std::move(all->front())) : all.error();
}

Result<CollectedBySample> DeviceValues::collect_by_sample(const SampledRank& ranked, std::size_t limit,
                                                          Selection& out) const {
  const auto selecting = this->selecting(/*by_sample=*/true, [&] {
    const Selecting::BySample one{tensor_, ranked, limit};
    return Selecting::collect_by_sample(std::span(&one, 1));
  });
  if (!selecting) return selecting.error();
  const Selecting::Work& work = *selecting->work_;
  const std::size_t i = selecting->index_;
  if (auto come = work.down.wait(i); !come) return come.error();
  const std::uint32_t cut = work.found(i).cut.magnitude;
  out.clear();
  if (work.found(i).count > limit) return CollectedBySample{cut, false};
  if (work.has_all(i)) {
    work.read(i, out);
    return CollectedBySample{cut, true};
  }
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
  const auto selecting = this->selecting(/*by_sample=*/false, [&] {
    const Selecting::Largest one{tensor_, bins_, count};
    return Selecting::select_largest(std::span(&one, 1));
  });
  if (!selecting) return selecting.error();
  const Selecting::Work* const work = selecting->work_.get();
  const std::size_t i = selecting->index_;
  if (work == nullptr) return select_among_all(count, out);
  if (auto come = work->down.wait(i); !come) return come;
  if (work->found(i).candidates > work->rooms[i].candidates) return select_among_all(count, out);
  work->read(i, out);
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
    const cuda::Taken all{{place<float>(tensor_), size()}, place<cuda::Cut>(cut), found.room()};
    done = cuda::take(std::span(&all, 1), {place<std::byte>(places)}, stream);
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
