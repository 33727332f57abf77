#include "cluster/host.hpp"

#include <netdb.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <thread>

namespace weir::cluster::host {
namespace {

/// A field of /proc/meminfo, in bytes; 0 if there is none.
std::uint64_t memory_field(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name + ":")) continue;
    std::istringstream fields(line.substr(name.size() + 1));
    std::uint64_t kib = 0;
    fields >> kib;
    return kib * 1024;
  }
  return 0;
}

/// The control group's memory limit in bytes; the largest number if there is none.
std::uint64_t memory_limit() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  std::uint64_t bytes = 0;
  return file >> bytes ? bytes : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

protocol::Resources resources() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const bool known = ::sched_getaffinity(0, sizeof cores, &cores) == 0;
  const double count = known ? CPU_COUNT(&cores) : std::max(1u, std::thread::hardware_concurrency());
  const auto memory = std::min(memory_field("MemTotal"), memory_limit());
  return {{"cpu", count}, {"memory", static_cast<double>(memory)}};
}

std::string name() {
  std::array<char, 256> text{};
  return ::gethostname(text.data(), text.size() - 1) == 0 && text[0] != '\0' ? text.data() : "node";
}

std::string address_towards(const std::string& peer) {
  const char* const fallback = "127.0.0.1";
  const auto colon = peer.rfind(':');
  if (colon == std::string::npos) return fallback;
  std::string target = peer.substr(0, colon);
  if (target.starts_with('[') && target.ends_with(']')) target = target.substr(1, target.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (::getaddrinfo(target.c_str(), peer.substr(colon + 1).c_str(), &hints, &list) != 0) return fallback;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(list, &::freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fallback;
  // Connecting a datagram socket sends nothing: it only chooses the route.
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  std::array<char, 64> text{};
  const bool good = ::connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                    ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) == 0 &&
                    ::getnameinfo(reinterpret_cast<sockaddr*>(&local), size, text.data(), text.size(), nullptr, 0,
                                  NI_NUMERICHOST) == 0;
  ::close(fd);
  return good ? text.data() : fallback;
}

LoadMeter::LoadMeter() : ticks_(busy_ticks()), at_(std::chrono::steady_clock::now()), begin_(network()) {}

Load LoadMeter::sample() {
  Load load;
  const auto now = std::chrono::steady_clock::now();
  const auto ticks = busy_ticks();
  const double seconds = std::chrono::duration<double>(now - at_).count();
  if (seconds > 0 && ticks >= ticks_) {
    load.cpu = static_cast<double>(ticks - ticks_) / static_cast<double>(::sysconf(_SC_CLK_TCK)) / seconds;
  }
  ticks_ = ticks;
  at_ = now;
  load.memory_total_bytes = memory_field("MemTotal");
  load.memory_used_bytes = load.memory_total_bytes - std::min(load.memory_total_bytes, memory_field("MemAvailable"));
  const Network traffic = network();
  load.network_sent_bytes = traffic.sent - std::min(traffic.sent, begin_.sent);
  load.network_received_bytes = traffic.received - std::min(traffic.received, begin_.received);
  return load;
}

/// user + nice + system + irq + softirq + steal of all cores.
std::uint64_t LoadMeter::busy_ticks() {
  std::ifstream file("/proc/stat");
  std::string cpu;
  std::array<std::uint64_t, 8> field{};
  file >> cpu;
  for (auto& value : field) file >> value;
  return field[0] + field[1] + field[2] + field[5] + field[6] + field[7];
}

LoadMeter::Network LoadMeter::network() {
  std::ifstream file("/proc/net/dev");
  std::string line;
  Network sum;
  while (std::getline(file, line)) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;  // the two header lines
    if (line.substr(0, colon).find_first_not_of(" lo") == std::string::npos) continue;
    std::istringstream fields(line.substr(colon + 1));
    std::array<std::uint64_t, 9> value{};
    for (auto& one : value) fields >> one;
    sum.received += value[0];
    sum.sent += value[8];
  }
  return sum;
}

}  // namespace weir::cluster::host
