#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/collectives/group.hpp"
#include "tests/cuda/emulator/emulator.hpp"
#include "tests/cuda/fake_nccl.hpp"
#include "tests/cuda/nccl_contract.hpp"

namespace weir::cuda::testing {

/// Ranks with NCCL's fake, each with a loop and a thread of its own, whose GPU is the emulated device with deferred
/// work.
class NcclRanks {
 public:
  /// The libraries of all ranks, or of each.
  explicit NcclRanks(std::uint32_t size, std::vector<std::string> libraries = {WEIR_FAKE_NCCL_LIBRARY},
                     emulator::Order first = emulator::Order::any)
      : deferred_(first), fabrics_(size), nccl_(size), joined_(size), libraries_(std::move(libraries)) {
    auto meshes = collectives::testing::bind_all(size);
    const auto peers = collectives::testing::addresses(meshes);
    collectives::testing::on_every_rank(size, [&](std::uint32_t rank) {
      auto joined = meshes[rank]->join(collectives::testing::group_of(rank, size), peers, collectives::testing::guard);
      ASSERT_TRUE(joined) << joined.error().message();
      fabrics_[rank] = std::move(*joined);
    });
  }
  ~NcclRanks() {
    for (std::uint32_t rank = 0; rank < size(); ++rank) lose(rank);
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(fabrics_.size()); }
  collectives::Fabric& fabric(std::uint32_t rank) { return *fabrics_[rank]; }
  Nccl& nccl(std::uint32_t rank) { return *nccl_[rank]; }
  /// How joining has ended.
  const Result<void>& joined(std::uint32_t rank) const { return joined_[rank]; }

  /// Has all ranks join, and returns whether all have.
  bool join(NcclOptions options = {}) {
    collectives::testing::on_every_rank(size(), [&](std::uint32_t rank) {
      NcclOptions own = options;
      own.library = libraries_[std::min<std::size_t>(rank, libraries_.size() - 1)];
      joined_[rank] = fabrics_[rank]->thread().run([&] { return join(fabrics_[rank]->lane(1), own, nccl_[rank]); });
    });
    return std::ranges::all_of(joined_, [](const auto& result) { return result.has_value(); });
  }

  /// Runs `body` for every rank, each on a thread of its own.
  void run(const std::function<void(const OneRank& rank)>& body) {
    collectives::testing::on_every_rank(size(), [&](std::uint32_t rank) { body({*fabrics_[rank], *nccl_[rank]}); });
  }

  void close() {
    run([](const OneRank& rank) { expect_done(rank.run([&] { return rank.nccl.close(); })); });
  }

  /// Destroys what the rank has, as if it were killed.
  void lose(std::uint32_t rank) {
    if (!fabrics_[rank]) return;
    fabrics_[rank]->thread().call([&] {
      nccl_[rank].reset();
      EXPECT_EQ(emulator::waits_of_this_thread(), 0U) << "of the loop's thread for the GPU";
    });
    fabrics_[rank].reset();
  }

 private:
  static Task<> join(collectives::Communicator& control, NcclOptions options, std::unique_ptr<Nccl>& to) {
    auto joined = co_await join_nccl(control, std::move(options));
    if (!joined) co_return joined.error();
    to = std::move(*joined);
    co_return Result<void>();
  }

  emulator::Deferred deferred_;
  std::vector<std::unique_ptr<collectives::Fabric>> fabrics_;
  std::vector<std::unique_ptr<Nccl>> nccl_;
  std::vector<Result<void>> joined_;
  const std::vector<std::string> libraries_;
};

/// What that fake is told and tells.
inline FakeNccl& fake(const char* library = WEIR_FAKE_NCCL_LIBRARY) { return fake_nccl_of(library); }

}  // namespace weir::cuda::testing
