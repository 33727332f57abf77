#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "protocol/resources.hpp"

/// Information from the operating system about this machine.
namespace weir::cluster::host {

/// cpu: cores this process may use; memory: bytes of the machine, or of its control group if that allows less.
protocol::Resources resources();

std::string name();

/// The address under which others reach this machine: the local address of the route to `peer`, an address with a port.
/// Names are not looked up, since that may take long. Returns 127.0.0.1 if it is unknown.
std::string address_towards(const std::string& peer);

struct Load {
  double cpu = 0;  ///< cores in use since the previous sample
  std::uint64_t memory_used_bytes = 0;
  std::uint64_t memory_total_bytes = 0;
  std::uint64_t network_sent_bytes = 0;  ///< of all interfaces but loopback, since the first sample
  std::uint64_t network_received_bytes = 0;
};

/// Measures the load, from /proc. Each user of samples has its own.
class LoadMeter {
 public:
  LoadMeter();
  Load sample();

 private:
  struct Network {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };
  static Network network();
  static std::uint64_t busy_ticks();

  std::uint64_t ticks_;
  std::chrono::steady_clock::time_point at_;
  Network begin_;
};

}  // namespace weir::cluster::host
