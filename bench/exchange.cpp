#include "bench/exchange.hpp"

#include <ATen/Parallel.h>
#include <poll.h>

#include <algorithm>
#include <barrier>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.hpp"
#include "bench/exchange_step.hpp"
#include "bench/normal_numbers.hpp"
#include "collectives/topologies/catalog.hpp"
#include "collectives/transports/mesh.hpp"
#include "training/exchange/auto_plan.hpp"

namespace weir::bench {
namespace {

using boost::asio::ip::tcp;
using collectives::Fabric;
using collectives::Subject;
using collectives::Task;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t block_bytes = 256 * 1024;
constexpr std::chrono::seconds join_deadline{10};
/// Rounds in which `auto` may try its plans.
constexpr int rounds_of_a_trial = 9;
constexpr int trials_max = 20;

struct Case {
  std::string name;  ///< all_reduce or all_gather, by itself; dense_step or coded_step of a job
  std::string topology;
  bool shared_memory;  ///< if not, TCP
  std::uint32_t ranks;
  std::size_t bytes;  ///< size of the array, of one rank's payload or of its gradients
  int rounds;

  bool is_step() const { return name.ends_with("_step"); }
  /// `topk` cannot be encoded anew at every hop, where a topology has those.
  std::string compressor() const {
    if (name != "coded_step") return "none";
    const auto* type = collectives::find_topology(topology);
    return type != nullptr && type->gathers == collectives::Gathers::partners ? "qsgd" : "topk";
  }
  const char* transport() const { return shared_memory ? "shared_memory" : "tcp"; }
  std::string title() const {
    return name + "/" + topology + "/" + transport() + "/" + std::to_string(ranks) + "/" + std::to_string(bytes);
  }
};

struct Sample {
  double p50 = 0;
  double p99 = 0;
};

Sample summarize(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) {
    const auto index = static_cast<std::size_t>(share * static_cast<double>(seconds.size()));
    return seconds[std::min(index, seconds.size() - 1)];
  };
  return {at(0.5), at(0.99)};
}

/// Runs `round(rank)` on one thread per rank; all ranks start each round together. A round lasts until its slowest rank
/// is done. The first round warms up and does not count.
Sample time_rounds(std::uint32_t ranks, int rounds, const std::function<void(std::uint32_t)>& round) {
  std::barrier together(ranks);
  std::vector<std::vector<double>> seconds(ranks);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        for (int i = 0; i <= rounds; ++i) {
          together.arrive_and_wait();
          const auto begin = std::chrono::steady_clock::now();
          round(rank);
          if (i > 0) seconds[rank].push_back(Seconds(std::chrono::steady_clock::now() - begin).count());
        }
      });
    }
  }
  std::vector<double> slowest(seconds[0]);
  for (const auto& of_rank : seconds) {
    for (std::size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], of_rank[i]);
  }
  return summarize(std::move(slowest));
}

/// Bare sockets in a ring: the speed of TCP on this machine with as many streams at once.
class BareRing {
 public:
  explicit BareRing(std::uint32_t ranks) {
    const tcp::endpoint loopback(boost::asio::ip::address_v4::loopback(), 0);
    tcp::acceptor acceptor(io_, loopback);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      auto& [in, out] = places_.emplace_back(tcp::socket(io_), tcp::socket(io_));
      out.connect(acceptor.local_endpoint());
      out.set_option(tcp::no_delay(true));
    }
    // Accepted in the order of the connects: rank r + 1 accepts the connection of rank r.
    for (std::uint32_t r = 0; r < ranks; ++r) places_[(r + 1) % ranks].first = acceptor.accept();
    for (auto& [in, out] : places_) {
      in.non_blocking(true);
      out.non_blocking(true);
    }
  }

  /// Sends `bytes` bytes to the next rank and receives as many from the previous one, at the same time.
  void pass(std::uint32_t rank, std::uint64_t bytes) {
    auto& [in, out] = places_[rank];
    thread_local Bytes outgoing(block_bytes);
    thread_local Bytes incoming(block_bytes);
    std::uint64_t to_send = bytes;
    std::uint64_t to_receive = bytes;
    while (to_send + to_receive > 0) {
      boost::system::error_code code;
      std::size_t moved = 0;
      if (to_send > 0) {
        const std::size_t sent = out.write_some(boost::asio::buffer(outgoing, limit(to_send)), code);
        to_send -= sent;
        moved += sent;
      }
      if (to_receive > 0) {
        const std::size_t got = in.read_some(boost::asio::buffer(incoming, limit(to_receive)), code);
        to_receive -= got;
        moved += got;
      }
      if (moved > 0) continue;
      pollfd waits[2] = {{to_receive > 0 ? in.native_handle() : -1, POLLIN, 0},
                         {to_send > 0 ? out.native_handle() : -1, POLLOUT, 0}};
      ::poll(waits, 2, -1);
    }
  }

 private:
  static std::size_t limit(std::uint64_t bytes) {
    return static_cast<std::size_t>(std::min<std::uint64_t>(bytes, block_bytes));
  }

  boost::asio::io_context io_;
  std::vector<std::pair<tcp::socket, tcp::socket>> places_;  // from the previous rank, to the next rank
};

/// What a rank does at least that hands bytes over in memory: it copies its own in, and those of another rank out.
class BareCopies {
 public:
  void pass(std::uint64_t bytes) {
    thread_local Bytes own(block_bytes);
    thread_local Bytes shared(block_bytes);
    for (std::uint64_t left = bytes; left > 0;) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, block_bytes));
      std::memcpy(shared.data(), own.data(), size);
      std::memcpy(own.data(), shared.data(), size);
      left -= size;
    }
  }
};

using Group = std::vector<std::unique_ptr<Fabric>>;

Group join_group(std::uint32_t ranks, bool shared_memory) {
  std::vector<std::unique_ptr<collectives::Mesh>> meshes;
  std::vector<collectives::Peer> peers;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    meshes.push_back(collectives::Mesh::bind("127.0.0.1").value());
    peers.push_back({"127.0.0.1", meshes.back()->port()});
  }
  Group group(ranks);
  std::vector<std::jthread> threads;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const collectives::Group own{
          .job_id = "bench", .attempt = 1, .secret = "bench", .rank = r, .size = ranks, .shared_memory = shared_memory};
      group[r] = meshes[r]->join(own, peers, join_deadline).value();
    });
  }
  threads.clear();
  return group;
}

struct Row {
  Sample ours;
  std::string routes;  ///< what was taken
  Sample limit;
  std::uint64_t bytes_sent = 0;  ///< by the rank that sends most, in one round
};

/// The operation of a topology, by itself.
class BareOperation {
 public:
  BareOperation(const Case& c, const Group& group)
      : case_(c),
        group_(group),
        topology_(*collectives::find_topology(c.topology)),
        rounds_(c.ranks),
        payload_(c.bytes, std::byte{1}),
        gathered_(c.ranks, {.payloads = {}, .bytes_max = c.bytes}) {
    for (std::uint32_t r = 0; r < c.ranks; ++r) values_.push_back(normal_numbers(c.bytes / sizeof(float), r));
  }

  void operator()(std::uint32_t rank) {
    Fabric& fabric = *group_[rank];
    const auto done = fabric.thread().run([&]() -> Task<> {
      const auto collective = topology_.make(fabric.lane(0));
      if (case_.name == "all_gather") co_return co_await collective->all_gather(payload_, gathered_[rank], Subject());
      const collectives::Buffer buffer{std::as_writable_bytes(std::span(values_[rank]))};
      co_return co_await collective->all_reduce(buffer, collectives::ReduceOp::sum, Subject());
    });
    done.value();
    if (case_.name != "all_gather") keep_finite(values_[rank], rounds_[rank]++, case_.ranks);
  }

 private:
  const Case& case_;
  const Group& group_;
  const collectives::TopologyType& topology_;
  std::vector<std::vector<float>> values_;  ///< by rank
  std::vector<std::uint32_t> rounds_;       ///< so far, by rank
  const Bytes payload_;
  std::vector<collectives::Gathered> gathered_;
};

/// Times the rounds of the case and of the limit beside them.
Row time_case(const Case& c, const Group& group, const std::function<void(std::uint32_t)>& round) {
  Row row;
  std::vector<std::uint64_t> before;
  for (const auto& fabric : group) before.push_back(fabric->traffic().sent_bytes);
  row.ours = time_rounds(c.ranks, c.rounds, round);
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    const std::uint64_t sent = group[r]->traffic().sent_bytes - before[r];
    row.bytes_sent = std::max(row.bytes_sent, sent / static_cast<std::uint64_t>(c.rounds + 1));
  }
  if (c.shared_memory) {
    BareCopies bare;
    row.limit = time_rounds(c.ranks, c.rounds, [&](std::uint32_t) { bare.pass(row.bytes_sent); });
  } else {
    BareRing bare(c.ranks);
    row.limit = time_rounds(c.ranks, c.rounds, [&](std::uint32_t rank) { bare.pass(rank, row.bytes_sent); });
  }
  return row;
}

Row run(const Case& c) {
  const Group group = join_group(c.ranks, c.shared_memory);
  if (!c.is_step()) {
    Row row = time_case(c, group, BareOperation(c, group));
    row.routes = c.topology;
    return row;
  }
  ExchangeStep step(group, {.topology = c.topology, .compressor = c.compressor(), .gradient_bytes = c.bytes});
  const auto round = [&step](std::uint32_t rank) { step.step(rank); };
  for (int i = 0; i < trials_max && !step.settled(); ++i) time_rounds(c.ranks, rounds_of_a_trial, round);
  Row row = time_case(c, group, round);
  row.routes = step.routes();
  return row;
}

void print(const Options& options, const Case& c, const Row& row) {
  const double share = row.limit.p50 / row.ours.p50;
  if (options.json) {
    const nlohmann::json line{
        {"bench", "exchange"},
        {"name", c.name},
        {"case", {{"topology", c.topology}, {"transport", c.transport()}, {"ranks", c.ranks}, {"bytes", c.bytes}}},
        {"metrics",
         {{"routes", row.routes},
          {"seconds_p50", row.ours.p50},
          {"seconds_p99", row.ours.p99},
          {"line_rate_share", share},
          {"bytes_sent", row.bytes_sent},
          {"stream_seconds_p50", row.limit.p50},
          {"stream_seconds_p99", row.limit.p99}}}};
    std::cout << line.dump() << std::endl;
    return;
  }
  std::cout << std::left << std::setw(48) << c.title() << std::right << std::fixed << std::setprecision(3)
            << std::setw(10) << row.ours.p50 * 1e3 << " ms p50" << std::setw(10) << row.ours.p99 * 1e3 << " ms p99"
            << std::setw(10) << row.limit.p50 * 1e3 << (c.shared_memory ? " ms bare copies" : " ms bare TCP   ")
            << std::setw(8) << std::setprecision(2) << share << " of the limit"
            << (c.topology == row.routes ? "" : ", " + row.routes) << std::endl;
}

}  // namespace

int exchange(const Options& options) {
  at::set_num_threads(1);  // the ranks share this process
  std::vector<std::string> names;
  for (const auto& topology : collectives::topologies()) names.emplace_back(topology.name);
  std::vector<Case> cases;
  for (const bool shared_memory : {false, true}) {
    for (const std::uint32_t ranks : {2U, 4U}) {
      for (const auto& name : names) {
        cases.push_back({"all_reduce", name, shared_memory, ranks, 256'000, 200});
        cases.push_back({"all_reduce", name, shared_memory, ranks, 64'000'000, 7});
        cases.push_back({"all_gather", name, shared_memory, ranks, 64'000, 200});
      }
      auto of_jobs = names;
      of_jobs.insert(of_jobs.begin(), std::string(training::AutoPlan::name));
      for (const auto& name : of_jobs) {
        cases.push_back({"dense_step", name, shared_memory, ranks, 256'000, 200});
        cases.push_back({"dense_step", name, shared_memory, ranks, 64'000'000, 9});
        cases.push_back({"coded_step", name, shared_memory, ranks, 25'600'000, 20});
      }
    }
  }
  const std::regex filter(options.filter);
  for (const Case& c : cases) {
    if (std::regex_search(c.title(), filter)) print(options, c, run(c));
  }
  return 0;
}

}  // namespace weir::bench
