#include "cuda/kernels/selection.hpp"

#include <algorithm>

#include "compressors/kernels/selection/selection.hpp"
#include "cuda/kernels/arithmetic.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

/// A selection on the device, with room for `limit` entries.
class Room {
 public:
  explicit Room(std::uint64_t limit) : limit_(limit), positions_(limit, 1), values_(limit, 2) {}

  Selection to() const { return {positions_.data(), values_.data(), limit_, count_.data()}; }
  const std::uint32_t* positions() const { return positions_.data(); }
  const float* values() const { return values_.data(); }
  std::uint32_t count() const { return count_.read()[0]; }
  compressors::Selection read() const {
    const std::size_t found = count();
    return {positions_.read(found), values_.read(found)};
  }

 private:
  std::uint64_t limit_;
  Array<std::uint32_t> positions_;
  Array<float> values_;
  Array<std::uint32_t> count_{std::vector<std::uint32_t>(1)};
};

class PlaceRoom {
 public:
  explicit PlaceRoom(std::uint64_t n) : memory_(PlaceScratch::bytes(n)) {}
  PlaceScratch at() const { return {memory_.data()}; }

 private:
  Array<std::byte> memory_;
};

/// A cut on the device, found there.
class FoundCut {
 public:
  FoundCut(const Array<float>& values, std::uint64_t n, const Rank& rank, const Bins* bins = nullptr) {
    const Array<std::byte> scratch(CutScratch::bytes(n));
    find_cut(values.data(), n, rank, bins, {scratch.data()}, at_.data(), nullptr).value();
  }

  const Cut* at() const { return at_.data(); }
  Cut read() const { return at_.read()[0]; }

 private:
  Array<Cut> at_{1};
};

void take_one(const From& from, const Cut* cut, const Room& room) {
  const Taken it{from, cut, room.to()};
  take(std::span(&it, 1), PlaceRoom(from.n).at(), nullptr).value();
}

testing::AssertionResult is_twin(const compressors::Selection& found, const compressors::Selection& due) {
  const auto positions = same_bits(found.positions, due.positions);
  return positions ? same_bits(found.values, due.values) : positions;
}

/// Where the emulator is slow, one way of several is enough.
constexpr std::size_t many = 10'000;

std::vector<std::size_t> ranks_of(std::size_t n) {
  if (n > many) return {n / 100};
  std::vector<std::size_t> ranks;
  for (const std::size_t rank : {std::size_t{1}, n / 100, n / 3, n - 1, n}) {
    if (rank >= 1 && rank <= n && (ranks.empty() || rank > ranks.back())) ranks.push_back(rank);
  }
  return ranks;
}

/// A rough cut leaves candidates, of which the largest are the largest of all.
void expect_among_candidates(const Array<float>& x, std::size_t n, std::size_t rank, const Array<Bins>& bins,
                             const compressors::Selection& due) {
  const Array<Cut> rough(1);
  const RoughCut it{bins.data(), rank, rough.data()};
  find_rough_cuts(std::span(&it, 1), nullptr).value();
  const Room candidates(n);
  take_one({x.data(), n}, rough.data(), candidates);
  const auto among = candidates.read();
  ASSERT_GE(among.size(), due.size());
  const Array<std::uint32_t> positions(among.positions);
  const Array<float> values(among.values);
  const Room room(rank);
  if (among.size() < rank) return;  // others are zeros
  const FoundCut cut(values, among.size(), {.rank = rank});
  take_one({values.data(), among.size(), positions.data()}, cut.at(), room);
  ASSERT_TRUE(is_twin(room.read(), due));
}

/// Selects in all ways, of which each has to be the twin.
void expect_largest(const std::vector<float>& values, std::size_t rank) {
  SCOPED_TRACE("the largest " + std::to_string(rank));
  const std::size_t n = values.size();
  const Array<float> x(values, n % 4);
  const compressors::Cut due_cut = compressors::cut_at_rank(values, rank);
  const FoundCut exact(x, n, {.rank = rank, .kind = Rank::Kind::exact});
  ASSERT_EQ(exact.read().magnitude, due_cut.magnitude);
  ASSERT_EQ(exact.read().ties, due_cut.ties);
  compressors::Selection due;
  compressors::select_largest(values, rank, due);
  const Array<Bins> bins{std::vector<Bins>(1)};
  const Array<float> same(std::vector<float>(n, -0.0F));
  const ResidualOf counted_here{0, 1, x.data(), same.data(), n, bins.data()};
  accumulate_residual(std::span(&counted_here, 1), nullptr).value();
  const FoundCut soon(x, n, {.rank = rank});
  const FoundCut counted(x, n, {.rank = rank}, bins.data());
  for (const Cut* cut : {exact.at(), soon.at(), counted.at()}) {
    if (n > many && cut != counted.at()) continue;
    const Room room(rank);
    take_one({x.data(), n}, cut, room);
    ASSERT_EQ(room.count(), due.size());
    ASSERT_TRUE(is_twin(room.read(), due));
  }
  expect_among_candidates(x, n, rank, bins, due);
}

/// All sizes have ordinary values. The other kinds need a part of a warp, more than one, and more than one block.
bool is_tried(std::size_t n, Among among) {
  return among == Among::nothing || n == 1 || n == 33 || n == 1025 || n == 4097;
}

TEST(CudaSelection, LargestAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      if (!is_tried(n, among)) continue;
      SCOPED_TRACE(named(n, among));
      for (const std::size_t rank : ranks_of(n)) expect_largest(some_values(n, among), rank);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CudaSelection, LargestOfKeysThatHardlyDiffer) {
  constexpr std::size_t n = 20'000;
  std::vector<float> values(n, -0.5F);
  for (const std::size_t rank : {std::size_t{1}, std::size_t{5000}, n}) expect_largest(values, rank);
  for (std::size_t i = 0; i < n; i += 3) values[i] = std::nextafter(0.5F, 1.0F);  // equal but for the last digit
  for (const std::size_t rank : {std::size_t{1}, n / 3, n / 2, n - 1}) expect_largest(values, rank);
  for (std::size_t i = 0; i < n; ++i) values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(0x3F0FFF00U + i));
  for (const std::size_t rank : {std::size_t{255}, n / 2, n}) expect_largest(values, rank);
  const auto nan = std::bit_cast<float>(0xFFFFFFFFU);  // the largest key there is
  std::fill(values.begin(), values.end(), nan);
  expect_largest(values, 10);
}

TEST(CudaSelection, CollectedAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      const auto values = some_values(n, among);
      const Array<float> x(values, n % 4);
      for (const std::uint32_t least : {0x3C000000U, 1U, 0x3F800000U, 0x7F800000U, 0x7FFFFFFFU}) {
        if (n > many && least != 0x3C000000) continue;
        SCOPED_TRACE(named(n, among) + " at least " + std::to_string(least));
        compressors::Selection due;
        ASSERT_TRUE(compressors::collect(values, least, n, due));
        const Room room(n);
        collect(x.data(), n, least, room.to(), PlaceRoom(n).at(), nullptr).value();
        ASSERT_TRUE(is_twin(room.read(), due));
      }
    }
  }
}

TEST(CudaSelection, CollectsNoMoreThanTheLimitAndTellsHowManyThereAre) {
  const auto values = some_values(10'000, Among::zeros);
  const Array<float> x(values);
  compressors::Selection due;
  ASSERT_TRUE(compressors::collect(values, 1, values.size(), due));
  const std::size_t all = due.size();
  for (const std::size_t limit : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, all - 1, all}) {
    const Room room(limit);
    collect(x.data(), values.size(), 1, room.to(), PlaceRoom(values.size()).at(), nullptr).value();
    EXPECT_EQ(room.count(), all);
    EXPECT_EQ(compressors::collect(values, 1, limit, due), room.count() <= limit);
  }
}

TEST(CudaSelection, OfEachOfManyTensorsIsTakenWhatItsCutSelects) {
  // More than one launch takes, some of them empty.
  std::vector<std::size_t> all(90, 4096);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i % 9 == 0 ? 0 : i % 40 == 3 ? 9000 : 17 * i;
  std::vector<std::vector<float>> values;
  std::vector<Array<float>> tensors;
  std::vector<Room> rooms;
  std::vector<Taken> given;
  std::vector<Cut> cuts;
  for (std::size_t i = 0; i < all.size(); ++i) {
    values.push_back(some_values(all[i], i % 2 == 0 ? Among::zeros : Among::extremes, static_cast<unsigned>(i)));
    compressors::Cut due;  // of nothing: any
    if (all[i] > 0) due = compressors::cut_at_rank(values[i], std::max<std::size_t>(all[i] / 50, 1));
    cuts.push_back({due.magnitude, static_cast<std::uint32_t>(due.ties)});
    tensors.emplace_back(values[i], i % 4);
    rooms.emplace_back(all[i] / 50 + 1);
  }
  const Array<Cut> on_device(cuts);
  std::uint64_t together = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    given.push_back({{tensors[i].data(), all[i]}, on_device.data() + i, rooms[i].to()});
    together += all[i] + 4096;
  }
  take(given, PlaceRoom(together).at(), nullptr).value();
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    compressors::Selection due;
    if (all[i] > 0) compressors::select_largest(values[i], std::max<std::size_t>(all[i] / 50, 1), due);
    ASSERT_EQ(rooms[i].count(), due.size());
    ASSERT_TRUE(is_twin(rooms[i].read(), due));
  }
}

TEST(CudaSelection, TrimmedIsWhatTheTwinKeeps) {
  for (const std::size_t n : sizes) {
    for (const Among among : {Among::nothing, Among::zeros, Among::extremes}) {
      SCOPED_TRACE(named(n, among));
      const auto values = some_values(n, among);
      compressors::Selection due;
      ASSERT_TRUE(compressors::collect(values, 0x3C000000, n, due));
      if (due.size() == 0) continue;
      const std::size_t rank = due.size() / 2 + 1;
      const Array<std::uint32_t> positions(due.positions);
      const Array<float> x(due.values);
      const FoundCut cut(x, due.size(), {.rank = rank, .kind = Rank::Kind::exact});
      const Room room(rank);
      take_one({x.data(), due.size(), positions.data()}, cut.at(), room);
      compressors::trim(due, compressors::cut_at_rank(due.values, rank));
      ASSERT_TRUE(is_twin(room.read(), due));
    }
  }
}

TEST(CudaSelection, SelectionsAreAddedAsByTheTwin) {
  for (const std::size_t n : sizes) {
    SCOPED_TRACE(n);
    auto due = some_values(n, Among::extremes);
    const Array<float> to(due, n % 4);
    for (const unsigned rank : {2U, 3U}) {
      compressors::Selection sent;
      ASSERT_TRUE(compressors::collect(some_values(n, Among::extremes, rank), 0x3C000000, n, sent));
      const Array<std::uint32_t> positions(sent.positions);
      const Array<float> values(sent.values);
      compressors::add_selection(0.3F, sent, due);
      const Entries entries{positions.data(), sent.size(), to.data(), values.data(), 0.3F};
      add_selection(std::span(&entries, 1), nullptr).value();
      ASSERT_TRUE(same_bits(to.read(), due));
      if (rank == 2) continue;
      for (const std::uint32_t at : sent.positions) due[at] = 0;
      clear_selection(std::span(&entries, 1), nullptr).value();
      ASSERT_TRUE(same_bits(to.read(), due));
    }
  }
}

}  // namespace
}  // namespace weir::cuda
