#include "training/exchange/link_probe.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <vector>

#include "collectives/hosts.hpp"
#include "collectives/receivers.hpp"
#include "collectives/topologies/tree.hpp"
#include "training/exchange/agreement.hpp"
#include "training/exchange/stopwatch.hpp"

namespace weir::training {
namespace {

using collectives::Subject;
using collectives::Task;

constexpr std::size_t smallest_message = 64;
constexpr int small_messages = 16;
constexpr std::size_t message_bytes_min = 64 * 1024;
constexpr std::size_t message_bytes_max = 4 * 1024 * 1024;
constexpr double long_enough_seconds = 0.05;

/// Makes a number the largest of all ranks of the group.
Task<> agree_on(collectives::Communicator& group, float& number) {
  collectives::Tree tree(group);
  const collectives::Buffer value{std::as_writable_bytes(std::span(&number, 1))};
  co_return co_await tree.all_reduce(value, collectives::ReduceOp::max, Subject());
}

/// Each rank sends `message` to the next one.
Task<> shift(collectives::Communicator& group, BytesView message, std::span<std::byte> into) {
  collectives::Send sent(group, (group.rank() + 1) % group.size(), Subject(), message);
  collectives::Filler filler(into);
  collectives::Receive arrival(group, (group.rank() + group.size() - 1) % group.size(), Subject(), filler);
  if (auto done = co_await arrival; !done) co_return done.error();
  co_return co_await sent;
}

Task<> measure(collectives::Communicator& group, LinkCosts& costs) {
  if (group.size() == 1) co_return Result<void>();
  const Bytes message(message_bytes_max);
  Bytes into(message_bytes_max);
  std::vector<double> latencies;
  for (int i = 0; i < small_messages; ++i) {
    const Stopwatch watch;
    auto shifting = shift(group, BytesView(message).first(smallest_message), std::span(into).first(smallest_message));
    if (auto done = co_await shifting; !done) co_return done.error();
    latencies.push_back(watch.seconds());
  }
  std::ranges::nth_element(latencies, latencies.begin() + small_messages / 2);
  float latency = static_cast<float>(latencies[small_messages / 2]);
  auto agreeing = agree_on(group, latency);
  if (auto done = co_await agreeing; !done) co_return done.error();
  costs.latency_seconds = latency;
  for (std::size_t bytes = message_bytes_min; bytes <= message_bytes_max; bytes *= 4) {
    const Stopwatch watch;
    auto shifting = shift(group, BytesView(message).first(bytes), std::span(into).first(bytes));
    if (auto done = co_await shifting; !done) co_return done.error();
    auto seconds = static_cast<float>(watch.seconds());
    auto comparing = agree_on(group, seconds);
    if (auto done = co_await comparing; !done) co_return done.error();
    costs.seconds_per_byte = std::max(0.0F, seconds - latency) / static_cast<double>(bytes);
    if (seconds > long_enough_seconds) break;
  }
  co_return Result<void>();
}

/// Of combining pieces as they arrive, which are in the cache.
double measure_combining() {
  std::vector<float> a(collectives::Communicator::piece_bytes_max / sizeof(float), 1.0F);
  std::vector<float> b(a);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 8; ++i) {
    const Stopwatch watch;
    combine(collectives::ReduceOp::sum, collectives::Element::float32, std::as_bytes(std::span(a)),
            std::as_writable_bytes(std::span(b)));
    best = std::min(best, watch.seconds());
  }
  return best / static_cast<double>(a.size() * sizeof(float));
}

/// Of packing a piece of numbers as gradients have them, and of unpacking it.
collectives::PackingCosts measure_packing() {
  std::vector<float> values(collectives::Communicator::piece_bytes_max / sizeof(float));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1e-3F);
  std::ranges::generate(values, [&] { return normal(random); });
  const auto numbers = std::as_writable_bytes(std::span(values));
  Bytes packed(collectives::packed_bytes_max(numbers.size()));
  collectives::PackingCosts least;
  for (int i = 0; i < 8; ++i) {
    const Stopwatch packing;
    const std::size_t bytes = collectives::pack(collectives::Element::float32, numbers, packed);
    const double pack_seconds = packing.seconds();
    const Stopwatch unpacking;
    (void)collectives::unpack(BytesView(packed).first(bytes), numbers);
    const auto size = static_cast<double>(numbers.size());
    least.pack_seconds_per_byte = std::min(least.pack_seconds_per_byte, pack_seconds / size);
    least.unpack_seconds_per_byte = std::min(least.unpack_seconds_per_byte, unpacking.seconds() / size);
  }
  return least;
}

/// But for their links.
SharedHosts shared_hosts(const collectives::Communicator& group, const collectives::Hosts& hosts) {
  SharedHosts shared;
  if (hosts.count() == 1 || hosts.count() == group.size()) return shared;
  shared.count = static_cast<std::uint32_t>(hosts.count());
  for (const auto& ranks : hosts.ranks()) {
    const auto ends = std::ranges::count_if(
        ranks, [&](std::uint32_t rank) { return group.host_of((rank + 1) % group.size()) != group.host_of(rank); });
    shared.ranks_max = std::max(shared.ranks_max, static_cast<std::uint32_t>(ranks.size()));
    shared.ends_max = std::max(shared.ends_max, static_cast<std::uint32_t>(ends));
  }
  return shared;
}

/// Each host by itself, then between hosts.
Task<> measure(collectives::Communicator& group, collectives::Hosts& hosts, GroupLinks& found) {
  auto within = measure(hosts.neighbours(), found.hosts.links);
  if (auto done = co_await within; !done) co_return done.error();
  float nothing = 0;
  auto waiting = agree_on(group, nothing);  // for hosts with more ranks
  if (auto done = co_await waiting; !done) co_return done.error();
  if (!hosts.leads()) co_return Result<void>();
  auto between = measure(hosts.leaders(), found.links);
  co_return co_await between;
}

}  // namespace

Result<GroupLinks> measure_links(collectives::Fabric& fabric) {
  GroupLinks found;
  auto measured = fabric.thread().run([&]() -> Task<> {
    collectives::Communicator& group = fabric.lane(0);
    collectives::Hosts hosts(group);
    found.hosts = shared_hosts(group, hosts);
    if (found.hosts.count > 0) {
      auto by_hosts = measure(group, hosts, found);
      co_return co_await by_hosts;
    }
    auto measuring = measure(group, found.links);
    co_return co_await measuring;
  });
  if (!measured) return measured.error();
  const auto packing = measure_packing();
  std::array numbers{static_cast<float>(found.links.latency_seconds),
                     static_cast<float>(found.links.seconds_per_byte),
                     static_cast<float>(found.hosts.links.latency_seconds),
                     static_cast<float>(found.hosts.links.seconds_per_byte),
                     static_cast<float>(measure_combining()),
                     static_cast<float>(packing.pack_seconds_per_byte),
                     static_cast<float>(packing.unpack_seconds_per_byte)};
  if (auto agreed = agree_on_largest(fabric, numbers); !agreed) return agreed.error();
  found.links = {.latency_seconds = numbers[0],
                 .seconds_per_byte = numbers[1],
                 .combine_seconds_per_byte = numbers[4],
                 .packing = {.pack_seconds_per_byte = numbers[5], .unpack_seconds_per_byte = numbers[6]}};
  found.hosts.links = {
      .latency_seconds = numbers[2], .seconds_per_byte = numbers[3], .combine_seconds_per_byte = numbers[4]};
  return found;
}

}  // namespace weir::training
