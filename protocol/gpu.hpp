#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weir::protocol {

/// A GPU that a node offers.
struct Gpu {
  std::uint32_t index = 0;  ///< by PCI address, as the node's driver counts
  std::string uuid;         ///< "GPU-...", which identifies it
  std::string name;         ///< "NVIDIA H200"
  std::uint64_t memory_total_bytes = 0;

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// What a GPU reports about itself. What is not known now is absent.
struct GpuSample {
  std::optional<double> utilization = {};               ///< share of the time in which a kernel ran, 0 to 1
  std::optional<std::uint64_t> memory_used_bytes = {};  ///< allocated, by any process
  std::optional<double> power_watts = {};
  std::optional<double> temperature_celsius = {};
  std::optional<std::uint64_t> ecc_errors = {};  ///< uncorrected, since the driver was loaded
  std::optional<std::uint64_t> xid = {};         ///< number of the last critical error since the node started

  friend bool operator==(const GpuSample&, const GpuSample&) = default;
};

/// How a GPU of a node is now.
struct GpuState {
  std::string uuid;
  bool lost = false;  ///< the driver does not find it any more
  GpuSample sample;
};

/// What a process has booked of a GPU: all of it (1), or a part.
struct GpuShare {
  std::string uuid;
  double share = 1;

  friend bool operator==(const GpuShare&, const GpuShare&) = default;
};

/// For messages: "GPU 0 (NVIDIA H200, GPU-5f3c...)"
inline std::string describe(const Gpu& gpu) {
  return "GPU " + std::to_string(gpu.index) + " (" + gpu.name + ", " + gpu.uuid + ")";
}

}  // namespace weir::protocol
