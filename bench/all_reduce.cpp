#include "bench/all_reduce.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/errc.hpp"
#include "bench/normal_numbers.hpp"
#include "collectives/topologies/catalog.hpp"

namespace weir::bench {
namespace {

using collectives::Fabric;
using collectives::Subject;
using collectives::Task;
using collectives::TopologyType;

constexpr std::chrono::seconds join_deadline{60};
constexpr std::uint32_t warm_up_rounds = 2;

struct Measured {
  std::vector<double> seconds;   ///< of each round
  double cpu_seconds = 0;        ///< of this process, in all of them
  std::uint64_t sent_bytes = 0;  ///< in all of them
};

/// What all threads of this process have computed so far.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// All rounds in one task, so that what is measured is the collective and not how a thread hands it over.
Task<> run_rounds(Fabric& fabric, const TopologyType& topology, std::vector<float>& values, std::uint32_t rounds,
                  Measured& measured) {
  const auto collective = topology.make(fabric.lane(0));
  const collectives::Buffer buffer{std::as_writable_bytes(std::span(values))};
  std::uint64_t sent_before = 0;
  double cpu_before = 0;
  for (std::uint32_t round = 0; round < warm_up_rounds + rounds; ++round) {
    if (round == warm_up_rounds) {
      sent_before = fabric.lane(0).traffic().sent_bytes;
      cpu_before = cpu_seconds();
    }
    const auto begin = std::chrono::steady_clock::now();
    auto reducing = collective->all_reduce(buffer, collectives::ReduceOp::sum, Subject{.version = round});
    if (auto done = co_await reducing; !done) co_return done.error();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (round >= warm_up_rounds) measured.seconds.push_back(taken.count());
    keep_finite(values, round, fabric.lane(0).size());
  }
  measured.cpu_seconds = cpu_seconds() - cpu_before;
  measured.sent_bytes = fabric.lane(0).traffic().sent_bytes - sent_before;
  co_return Result<void>();
}

void print(const AllReduceOptions& options, const TopologyType& topology, std::uint64_t bytes, Measured measured) {
  const auto rounds = static_cast<double>(measured.seconds.size());
  double sum = 0;
  for (const double seconds : measured.seconds) sum += seconds;
  std::ranges::sort(measured.seconds);
  const double p50 = measured.seconds[measured.seconds.size() / 2];
  if (!options.common.json) {
    std::printf("%-18s %10llu B %10.3f ms p50 %10.3f ms mean %10.3f ms CPU\n", std::string(topology.name).c_str(),
                static_cast<unsigned long long>(bytes), 1e3 * p50, 1e3 * sum / rounds,
                1e3 * measured.cpu_seconds / rounds);
  } else {
    const nlohmann::json line{
        {"bench", "all-reduce"},
        {"name", topology.name},
        {"case", {{"ranks", options.place.peers.size()}, {"bytes", bytes}, {"rounds", measured.seconds.size()}}},
        {"metrics",
         {{"seconds_p50", p50},
          {"seconds_mean", sum / rounds},
          {"cpu_seconds", measured.cpu_seconds / rounds},
          {"sent_bytes", static_cast<double>(measured.sent_bytes) / rounds}}}};
    std::printf("%s\n", line.dump().c_str());
  }
  std::fflush(stdout);
}

Result<void> measure(const AllReduceOptions& options, const Place& place) {
  const std::regex filter(options.common.filter);
  const auto ranks = static_cast<std::uint32_t>(place.peers.size());
  const auto& own = place.peers[*place.rank];
  auto mesh = collectives::Mesh::bind(own.host, own.port);
  if (!mesh) return mesh.error();
  const collectives::Group group{.job_id = "bench",
                                 .attempt = 1,
                                 .secret = "bench",
                                 .rank = *place.rank,
                                 .size = ranks,
                                 .shared_memory = options.transport != "tcp"};
  auto fabric = (*mesh)->join(group, place.peers, join_deadline);
  if (!fabric) return fabric.error();
  for (const std::uint64_t bytes : options.bytes) {
    for (const auto& topology : collectives::topologies()) {
      if (!topology.fits(ranks) || !std::regex_search(std::string(topology.name), filter)) continue;
      std::vector<float> values = normal_numbers(bytes / sizeof(float), *place.rank);
      Measured measured;
      auto done =
          (*fabric)->thread().run([&] { return run_rounds(**fabric, topology, values, options.rounds, measured); });
      if (!done) return done.error().within(std::string(topology.name));
      print(options, topology, bytes, std::move(measured));
    }
  }
  (*fabric)->close();
  return {};
}

}  // namespace

int all_reduce(const AllReduceOptions& options) {
  const auto place = place_of(options.place);
  if (!place || !place->rank) {
    std::fprintf(stderr, "%s\n", place ? "bench all-reduce needs --rank and --peers" : place.error().context.c_str());
    return 2;
  }
  if (auto done = measure(options, *place); !done) {
    std::fprintf(stderr, "%s\n", done.error().message().c_str());
    return 1;
  }
  return 0;
}

}  // namespace weir::bench
