// A rank is lost at every point of every operation.

#include <optional>

#include "tests/collectives/group.hpp"
#include "tests/collectives/operations.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

/// An operation that all ranks of a simulated network have begun.
class UnderWay {
 public:
  /// `exchanged`: by rank; used again and again, because memory takes longer than all the rest.
  UnderWay(const NetworkModel& model, const NamedOperation& operation, std::vector<Exchanged>& exchanged)
      : network_(InProcessNetwork::make(static_cast<std::uint32_t>(exchanged.size()), 1, model)),
        operation_(operation),
        exchanged_(exchanged),
        tasks_(exchanged.size()) {
    const auto size = static_cast<std::uint32_t>(exchanged.size());
    for (std::uint32_t rank = 0; rank < size; ++rank) communicators_.push_back(network_->communicator(rank));
    for (std::uint32_t rank = 0; rank < size; ++rank) begin(rank, Subject());
    for (auto& task : tasks_) task->start();
  }

  /// Lets the next event happen, and all that goes on because of it.
  bool step() { return network_->run_once(); }

  void run() { network_->run_while_busy(); }

  bool done(std::uint32_t rank) const { return tasks_[rank]->done(); }
  Result<void> result(std::uint32_t rank) { return tasks_[rank]->take_result(); }

  /// Ends the rank as the end of its process does: whatever it was doing is gone, and nothing is said in good order.
  void lose(std::uint32_t rank) {
    communicators_[rank]->abort({Errc::cancelled, "its process has ended"}, std::nullopt);
    tasks_[rank].reset();
    communicators_[rank].reset();
  }

  /// Begins the operation once more.
  void again(std::uint32_t rank) {
    begin(rank, {.version = 1, .bucket = 0, .part = 0});
    tasks_[rank]->start();
  }

 private:
  void begin(std::uint32_t rank, Subject about) {
    tasks_[rank] = operation_.run(*communicators_[rank], exchanged_[rank], about);
  }

  std::unique_ptr<InProcessNetwork> network_;
  const NamedOperation& operation_;
  std::vector<Exchanged>& exchanged_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::optional<Task<>>> tasks_;
};

void expect_lost(const Result<void>& result, std::uint32_t rank, std::uint32_t lost) {
  ASSERT_FALSE(result) << "rank " << rank;
  EXPECT_EQ(result.error().code, Errc::peer_lost) << "rank " << rank << ": " << result.error().message();
  EXPECT_NE(result.error().context.find("rank " + std::to_string(lost)), std::string::npos)
      << "rank " << rank << ": " << result.error().message();
}

/// Loses `victim` after that many events. Returns false if the operation is complete before.
bool lose_after(std::size_t events, std::uint32_t victim, const NetworkModel& model, const NamedOperation& operation,
                std::vector<Exchanged>& exchanged) {
  UnderWay under_way(model, operation, exchanged);
  for (std::size_t i = 0; i < events; ++i) {
    if (!under_way.step()) return false;
  }
  under_way.lose(victim);
  under_way.run();
  for (std::uint32_t rank = 0; rank < exchanged.size(); ++rank) {
    if (rank == victim) continue;
    EXPECT_TRUE(under_way.done(rank)) << "rank " << rank << " is stuck";
    if (!under_way.done(rank)) continue;
    // What was on its way may have been enough. Then the loss is noticed by the next operation.
    if (auto result = under_way.result(rank); result) {
      under_way.again(rank);
      under_way.run();
      EXPECT_TRUE(under_way.done(rank)) << "rank " << rank << " is stuck in the next operation";
      if (under_way.done(rank)) expect_lost(under_way.result(rank), rank, victim);
    } else {
      expect_lost(result, rank, victim);
    }
  }
  return true;
}

class Losses : public ::testing::TestWithParam<Arrangement> {
 protected:
  void lose_everywhere(std::uint32_t size, const NetworkModel& model, std::size_t bytes,
                       const std::vector<std::uint32_t>& victims) const {
    if (GetParam().group_size == GroupSize::power_of_two && !std::has_single_bit(size)) return;
    std::vector<Exchanged> exchanged(size, Exchanged(bytes));
    for (const NamedOperation& operation : GetParam().operations) {
      for (const std::uint32_t victim : victims) {
        std::size_t events = 0;
        for (bool lost = true; lost && !HasFailure(); ++events) {
          SCOPED_TRACE(operation.name + " between " + std::to_string(size) + ", rank " + std::to_string(victim) +
                       " lost after " + std::to_string(events) + " events");
          lost = lose_after(events, victim, model, operation, exchanged);
        }
        EXPECT_GT(events, 2U) << "it was lost in the middle too";
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Catalog, Losses, ::testing::ValuesIn(all_arrangements()), arrangement_name);

/// Three ranks on a host; messages of different links overtake each other.
constexpr NetworkModel three_to_a_host{
    .latency_seconds = 1e-3, .jitter_seconds = 2e-3, .bytes_per_second = 1e8, .seed = 5, .ranks_per_host = 3};

TEST_P(Losses, AtEveryEventEndEveryOtherRank) {
  for (const std::uint32_t size : {2U, 3U, 4U, 5U}) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t rank = 0; rank < size; ++rank) all.push_back(rank);
    lose_everywhere(size, three_to_a_host, 100, all);
  }
  // Of more ranks some, among them the first and the last.
  lose_everywhere(6, three_to_a_host, 100, {0, 2, 3, 5});
  lose_everywhere(7, three_to_a_host, 100, {0, 3, 5, 6});
  lose_everywhere(8, three_to_a_host, 100, {0, 3, 7});
  lose_everywhere(9, three_to_a_host, 100, {0, 8});
}

TEST_P(Losses, InTheMiddleOfMessagesEndEveryOtherRank) {
  // Messages of several pieces, one of which fits on the way.
  NetworkModel model = three_to_a_host;
  model.window_bytes = 1000;
  model.combine_seconds_per_byte = 1e-9;
  model.carries_data = false;
  lose_everywhere(4, model, 1'500'000, {0, 1, 3});
  lose_everywhere(5, model, 1'500'000, {0, 3, 4});
}

}  // namespace
}  // namespace weir::collectives
