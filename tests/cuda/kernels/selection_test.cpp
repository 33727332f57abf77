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

  Selection to() const { return {positions_.data(), values_.data(), limit_, selected_.data()}; }
  const std::uint32_t* positions() const { return positions_.data(); }
  const float* values() const { return values_.data(); }
  Selected selected() const { return selected_.read()[0]; }
  compressors::Selection read() const {
    const std::size_t count = selected().count;
    return {positions_.read(count), values_.read(count)};
  }

 private:
  std::uint64_t limit_;
  Array<std::uint32_t> positions_;
  Array<float> values_;
  Array<Selected> selected_{std::vector<Selected>(1)};
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

testing::AssertionResult is_twin(const compressors::Selection& found, const compressors::Selection& due) {
  const auto positions = same_bits(found.positions, due.positions);
  return positions ? same_bits(found.values, due.values) : positions;
}

std::uint32_t largest_of(const std::vector<float>& values) {
  std::uint32_t largest = 0;
  for (const float value : values) largest = std::max(largest, compressors::magnitude(value));
  return largest;
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
  const FoundCut rough(x, n, {.rank = rank, .kind = Rank::Kind::rough}, bins.data());
  const Room candidates(n);
  take(x.data(), n, rough.at(), candidates.to(), PlaceRoom(n).at(), nullptr).value();
  const auto among = candidates.read();
  ASSERT_GE(among.size(), due.size());
  const Array<std::uint32_t> positions(among.positions);
  const Array<float> values(among.values);
  const Room room(rank);
  if (among.size() < rank) return;  // others are zeros
  const FoundCut cut(values, among.size(), {.rank = rank});
  trim(positions.data(), values.data(), among.size(), cut.at(), room.to(), PlaceRoom(n).at(), nullptr).value();
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
  accumulate_residual(0, 1, x.data(), same.data(), n, bins.data(), nullptr).value();
  const FoundCut soon(x, n, {.rank = rank});
  const FoundCut counted(x, n, {.rank = rank}, bins.data());
  for (const Cut* cut : {exact.at(), soon.at(), counted.at()}) {
    if (n > many && cut != counted.at()) continue;
    const Room room(rank);
    take(x.data(), n, cut, room.to(), PlaceRoom(n).at(), nullptr).value();
    ASSERT_EQ(room.selected().count, due.size());
    ASSERT_TRUE(is_twin(room.read(), due));
    ASSERT_EQ(room.selected().largest, largest_of(due.values));
  }
  expect_among_candidates(x, n, rank, bins, due);
}

TEST(CudaSelection, LargestAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
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
        ASSERT_EQ(room.selected().largest, largest_of(due.values));
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
    EXPECT_EQ(room.selected().count, all);
    EXPECT_EQ(compressors::collect(values, 1, limit, due), room.selected().count <= limit);
  }
}

TEST(CudaSelection, VelocityIsClearedWhereItIsSent) {
  for (const std::size_t n : sizes) {
    for (const Among among : {Among::nothing, Among::zeros, Among::only_zeros, Among::extremes}) {
      SCOPED_TRACE(named(n, among));
      if (n == 0) continue;
      auto due_v = some_values(n, among);
      auto due_m = some_values(n, Among::nothing, 2);
      for (const bool masks : {false, true}) {
        if (n > many && !masks) continue;
        const Array<float> v(due_v, n % 4);
        const Array<float> m(due_m, n % 3);
        compressors::Selection due;
        const std::size_t rank = n / 7 + 1;
        compressors::select_largest(due_v, rank, due);
        const FoundCut cut(v, n, {.rank = rank});
        const Room room(rank);
        float* const momentum = masks ? m.data() : nullptr;
        take_and_clear(v.data(), momentum, n, cut.at(), room.to(), PlaceRoom(n).at(), nullptr).value();
        ASSERT_TRUE(is_twin(room.read(), due));
        compressors::add_selection(-1, due, due_v);
        for (const std::uint32_t at : due.positions) due_m[at] = masks ? 0 : due_m[at];
        ASSERT_TRUE(same_bits(v.read(), due_v));
        ASSERT_TRUE(same_bits(m.read(), due_m));
      }
    }
  }
}

TEST(CudaSelection, OfEqualVelocitiesOnlyThoseSentAreCleared) {
  constexpr std::size_t n = 5000;
  constexpr std::size_t rank = 4321;
  std::vector<float> due(n, -0.5F);
  const Array<float> v(due);
  const FoundCut cut(v, n, {.rank = rank});
  const Room room(n);
  take_and_clear(v.data(), nullptr, n, cut.at(), room.to(), PlaceRoom(n).at(), nullptr).value();
  EXPECT_EQ(room.selected().count, rank);
  std::fill_n(due.begin(), rank, 0.0F);
  EXPECT_TRUE(same_bits(v.read(), due));
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
      trim(positions.data(), x.data(), due.size(), cut.at(), room.to(), PlaceRoom(due.size()).at(), nullptr).value();
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
      add_selection(0.3F, positions.data(), values.data(), sent.size(), to.data(), nullptr).value();
      ASSERT_TRUE(same_bits(to.read(), due));
      if (rank == 2) continue;
      for (const std::uint32_t at : sent.positions) due[at] = 0;
      clear_selection(positions.data(), sent.size(), to.data(), nullptr).value();
      ASSERT_TRUE(same_bits(to.read(), due));
    }
  }
}

}  // namespace
}  // namespace weir::cuda
