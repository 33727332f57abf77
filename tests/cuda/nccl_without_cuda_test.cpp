#include "base/errc.hpp"
#include "cuda/nccl.hpp"
#include "cuda/nccl_rendezvous.hpp"
#include "tests/collectives/group.hpp"

// A rank whose build is without CUDA, beside one that could use NCCL.

namespace weir::cuda {
namespace {

using collectives::Task;

Task<> join(collectives::Communicator& group) {
  if (group.rank() == 1) {
    auto joined = co_await join_nccl(group, NcclOptions());
    if (!joined) co_return joined.error();
    co_return Result<void>();
  }
  auto states = co_await exchange_nccl_states(group, own_nccl_state(22809), collectives::Subject());
  if (!states) co_return states.error();
  co_return expect_one_nccl(*states);
}

TEST(NcclWithoutCuda, IsUnsupportedAndAllRanksSayWhere) {
  collectives::testing::MeshRanks ranks(3, collectives::Loss::ends_the_group, /*shared_memory=*/true);
  for (const auto& result : ranks.run(join)) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::unsupported);
    EXPECT_TRUE(result.error().context.starts_with("rank 1 (")) << result.error().context;
    EXPECT_TRUE(result.error().context.ends_with(
        ") cannot use NCCL: this build of weir is without CUDA; build it where nvcc is, or choose another topology"))
        << result.error().context;
  }
}

}  // namespace
}  // namespace weir::cuda
