#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "protocol/gpu.hpp"

/// The GPUs of a node's machine, and which of them the node offers.
namespace weir::cluster {

struct NodeOptions;

/// Reads the GPUs of this machine. One thread at a time. Injected.
class GpuProbe {
 public:
  struct Reading {
    protocol::Gpu gpu;
    protocol::GpuSample sample;
  };

  virtual ~GpuProbe() = default;

  /// The GPUs that are there now. May block for tens of milliseconds. Fails with: io.
  virtual Result<std::vector<Reading>> read() = 0;
};

/// Of the machine, by NVIDIA's driver. Fails with: not_found (there is no driver), unsupported (it is too old), io; the
/// context is a sentence.
Result<std::shared_ptr<GpuProbe>> make_nvml_probe();

/// A probe that gives up: a driver in trouble may never answer. Its read() blocks for no longer than `limit` and also
/// fails with deadline_exceeded; the unanswered reading goes on in a thread of its own, and until it has ended no other
/// one begins.
std::shared_ptr<GpuProbe> with_deadline(std::shared_ptr<GpuProbe> probe, std::chrono::milliseconds limit);

struct VisibleGpus {
  std::vector<protocol::Gpu> gpus;
  std::string remark;  ///< a sentence on what of the variable is ignored or may be meant otherwise; or empty
};

/// The GPUs that a value of CUDA_VISIBLE_DEVICES selects, by CUDA's rules: indices, or UUIDs and prefixes of one; their
/// order is kept; the list ends before the first entry that is no GPU, and selects none if one is named twice.
/// Without a value all are selected. Indices are NVML's, which follow the PCI bus.
VisibleGpus visible_gpus(std::span<const protocol::Gpu> all, const std::optional<std::string>& value);

/// Of a GPU's name: "NVIDIA H200" gives "nvidia-h200".
std::string gpu_type(const std::string& name);

/// The environment variable that selects GPUs for CUDA.
inline constexpr const char* visible_devices_variable = "CUDA_VISIBLE_DEVICES";

/// Completes a node's options, before it starts, with the GPUs that are found: devices, the resource gpu and the label
/// gpu_type, unless the operator has set these. `probe` is where they are found or why there are none; `visible` is
/// the present value of CUDA_VISIBLE_DEVICES. Returns sentences to log. Fails with: invalid_argument (the operator
/// offers more GPUs than there are, or a part of one).
Result<std::vector<std::string>> offer_gpus(NodeOptions& options, Result<std::shared_ptr<GpuProbe>> probe,
                                            const std::optional<std::string>& visible);

}  // namespace weir::cluster
