#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace weir::cuda {

/// What a GPU reports about itself now. What NVML does not know of this GPU is absent.
struct GpuSample {
  std::optional<double> utilization;               ///< share of the time in which a kernel ran, 0 to 1
  std::optional<std::uint64_t> memory_used_bytes;  ///< allocated, by any process
  std::optional<double> power_watts;
  std::optional<double> temperature_celsius;
  std::optional<std::uint64_t> ecc_errors;  ///< uncorrected, since the driver was loaded
  std::optional<std::uint64_t> xid;         ///< number of the last critical error since the first read
};

struct Gpu {
  std::uint32_t index = 0;  ///< NVML's, by PCI address; CUDA may count otherwise
  std::string uuid;         ///< "GPU-..."
  std::string name;         ///< "NVIDIA H200"
  std::uint64_t memory_total_bytes = 0;
  GpuSample sample;
};

/// NVIDIA's management library, opened at run time, so that programs run with and without it. One thread at a time;
/// its calls ask the driver and may block for tens of milliseconds.
class Nvml {
 public:
  static constexpr const char* default_library = "libnvidia-ml.so.1";

  /// Opens the library and connects to the driver. Fails with: not_found (there is no library), unsupported (the
  /// library lacks a function that is needed), io (the driver refuses). The context is a sentence for people.
  static Result<std::unique_ptr<Nvml>> open(const std::string& library = default_library);
  ~Nvml();

  /// The GPUs that the driver has now, by index. One that has fallen off the bus is missing. Fails with: io.
  Result<std::vector<Gpu>> read();

  /// As "580.65.06"; empty if unknown.
  std::string driver_version() const;
  /// The newest CUDA that the driver supports, as "13.0"; empty if unknown.
  std::string cuda_version() const;

 private:
  struct State;
  explicit Nvml(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace weir::cuda
