// Nccl on a GPU, with the real library: two ranks, each a process of its own, which may share one GPU because NCCL
// takes them for ranks of different hosts. It opens the driver and NCCL itself; of other libraries it needs
// libcrypto.so.3 and libxxhash.so.0, which may lie beside it:
//
//   timeout 600 build/release/tests/gpu_nccl_test [--ranks=N] [--gtest_filter=...]
//
// Rank r uses GPU r, or GPU 0 if there are not as many. Slow over one GPU: of use for what is right alone.

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/errc.hpp"
#include "collectives/transports/mesh.hpp"
#include "cuda/device.hpp"
#include "cuda/nccl.hpp"
#include "tests/cuda/nccl_contract.hpp"

namespace weir::cuda {
namespace {

using namespace testing;

constexpr std::chrono::seconds deadline{60};
constexpr int seconds_in_all = 300;

/// What this process has.
struct Own {
  std::unique_ptr<collectives::Fabric> fabric;
  std::unique_ptr<Nccl> nccl;
  std::int32_t gpu = 0;
  bool lost = false;  ///< another rank

  OneRank rank() const { return {*fabric, *nccl, gpu}; }
};
Own own;

TEST(GpuNccl, ReducesAllTypes) { reduces_all_types(own.rank()); }
TEST(GpuNccl, ScattersReducedChunks) { scatters_reduced_chunks(own.rank()); }
TEST(GpuNccl, SumsAsTheRing) { sums_as_the_ring(own.rank()); }
TEST(GpuNccl, GathersPayloadsOfTheHost) { gathers_ragged_payloads(own.rank(), false); }
TEST(GpuNccl, GathersPayloadsOfTheDevice) { gathers_ragged_payloads(own.rank(), true); }
TEST(GpuNccl, ExchangesPayloads) { exchanges_payloads(own.rank()); }
TEST(GpuNccl, TakesPayloadsToOwnersAndBack) { takes_payloads_to_owners_and_back(own.rank()); }
TEST(GpuNccl, CopiesOneRanksValues) { copies_one_ranks_values(own.rank()); }

/// Values that the caller's stream writes right before: with a missing dependency some of them would be the old ones.
TEST(GpuNccl, BeginsAfterWhatTheStreamHasToDoBefore) {
  const OneRank rank = own.rank();
  constexpr std::size_t count = 4'000'000;
  const OnDevice<float> values(rank, std::vector<float>(count));
  const Memory gradient = Memory::allocate(count * sizeof(float)).value();
  const Buffer buffer = values.buffer(Element::float32);
  const auto stream = static_cast<StreamHandle>(buffer.device.stream);
  for (int round = 1; round <= 20; ++round) {
    const std::vector<float> ones(count, static_cast<float>(round));
    gradient.copy_from_host(std::as_bytes(std::span(ones)), stream).value();
    for (int again = 0; again < 50; ++again) {
      copy_bytes({gradient.data(), gradient.size()}, buffer.bytes.data(), stream).value();
    }
    expect_done(rank.run([&] { return rank.nccl.all_reduce(buffer, ReduceOp::sum, Subject()); }));
    const std::vector<float> sums = values.read();
    const auto due = static_cast<float>(round) * static_cast<float>(rank.ranks());
    ASSERT_EQ(std::ranges::count(sums, due), count) << "round " << round;
  }
}

/// The last one: a rank is killed while the others exchange.
TEST(GpuNcclLast, AKilledRankEndsTheOthersWithItsName) {
  const OneRank rank = own.rank();
  if (rank.ranks() < 2) GTEST_SKIP() << "one rank has nobody to lose";
  const std::uint32_t victim = rank.ranks() - 1;
  std::thread killer;
  if (rank.rank() == victim) {
    killer = std::thread([] {
      ::poll(nullptr, 0, 500);
      ::kill(::getpid(), SIGKILL);
    });
  }
  const OnDevice<float> values(rank, std::vector<float>(16'000'000));
  own.lost = true;
  for (;;) {
    const auto result =
        rank.run([&] { return rank.nccl.all_reduce(values.buffer(Element::float32), ReduceOp::max, Subject()); });
    if (result) continue;
    EXPECT_EQ(result.error().code, Errc::peer_lost) << result.error().message();
    EXPECT_NE(result.error().context.find("rank " + std::to_string(victim)), std::string::npos)
        << result.error().context;
    return;
  }
}

Task<> join(collectives::Communicator& control, NcclOptions options) {
  auto joined = co_await join_nccl(control, options);
  if (!joined) co_return joined.error();
  own.nccl = std::move(*joined);
  co_return Result<void>();
}

/// One rank's process. `parent` takes its port and gives those of all.
int run_rank(std::uint32_t rank, std::uint32_t size, int parent) {
  ::setenv("NCCL_HOSTID", ("weir-test-" + std::to_string(rank)).c_str(), 1);
  for (const auto& [name, value] : {std::pair("NCCL_NET", "Socket"), std::pair("NCCL_SOCKET_IFNAME", "lo"),
                                    std::pair("NCCL_ALGO", "Ring"), std::pair("NCCL_PROTO", "Simple")}) {
    ::setenv(name, value, 0);
  }
  auto mesh = collectives::Mesh::bind("127.0.0.1");
  if (!mesh) return 1;
  const std::uint16_t port = (*mesh)->port();
  std::vector<std::uint16_t> ports(size);
  if (::write(parent, &port, sizeof port) != sizeof port) return 1;
  const auto bytes = static_cast<ssize_t>(size * sizeof port);
  if (::recv(parent, ports.data(), static_cast<std::size_t>(bytes), MSG_WAITALL) != bytes) return 1;
  std::vector<collectives::Peer> peers;
  for (const std::uint16_t of_rank : ports) peers.push_back({"127.0.0.1", of_rank});
  auto fabric =
      (*mesh)->join({.job_id = "gpu", .secret = "between us", .rank = rank, .size = size, .lanes = 2}, peers, deadline);
  if (!fabric) {
    std::fprintf(stderr, "rank %u: %s\n", rank, fabric.error().message().c_str());
    return 1;
  }
  own.fabric = std::move(*fabric);
  own.gpu = use_gpu(static_cast<std::int32_t>(rank)) ? static_cast<std::int32_t>(rank) : 0;
  const auto usable = use_gpu(own.gpu);
  NcclOptions options{.gpu = own.gpu, .connect_within = deadline, .operation_within = deadline};
  const auto joined = own.fabric->thread().run([&] { return join(own.fabric->lane(1), options); });
  if (!joined || !usable) {
    std::fprintf(stderr, "rank %u: %s\n", rank, joined.error().message().c_str());
    return 1;
  }
  int failed = RUN_ALL_TESTS();
  if (!own.lost && !own.rank().run([] { return own.nccl->close(); })) failed = 1;
  own.fabric->thread().call([] { own.nccl.reset(); });
  if (!own.lost) own.fabric->close();
  own.fabric.reset();
  return failed;
}

/// Starts the ranks and tells them each other's ports. Returns the number of those that have failed; the last may have
/// been killed by its test.
int run_all(std::uint32_t size) {
  std::vector<pid_t> processes;
  std::vector<int> children;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return 1;
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(seconds_in_all);
      ::close(ends[0]);
      const int failed = run_rank(rank, size, ends[1]);
      std::fflush(nullptr);
      std::_Exit(failed);
    }
    ::close(ends[1]);
    processes.push_back(child);
    children.push_back(ends[0]);
  }
  std::vector<std::uint16_t> ports(size);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    if (::recv(children[rank], &ports[rank], sizeof ports[rank], MSG_WAITALL) != sizeof ports[rank]) return 1;
  }
  for (const int child : children) {
    if (::write(child, ports.data(), size * sizeof ports[0]) < 0) return 1;
  }
  int failed = 0;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    int status = 0;
    ::waitpid(processes[rank], &status, 0);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    const bool passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const bool is_victim = rank == size - 1 && size > 1;
    if (!passed && !(is_victim && killed)) {
      ++failed;
      std::printf("rank %u has failed (status %d)\n", rank, status);
    }
  }
  std::printf("%u ranks, %d failed\n", size, failed);
  return failed;
}

}  // namespace
}  // namespace weir::cuda

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::uint32_t size = 2;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--ranks=", 8) == 0) size = static_cast<std::uint32_t>(std::atoi(argv[i] + 8));
  }
  return weir::cuda::run_all(size) == 0 ? 0 : 1;
}
