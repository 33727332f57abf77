#include "cluster/gpus.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

#include "base/errc.hpp"
#include "cluster/node.hpp"
#include "cuda/nvml.hpp"

namespace weir::cluster {
namespace {

constexpr std::chrono::seconds answer_limit{5};  // of the driver, which needs tens of milliseconds

class NvmlProbe final : public GpuProbe {
 public:
  explicit NvmlProbe(std::unique_ptr<cuda::Nvml> nvml) : nvml_(std::move(nvml)) {}

  Result<std::vector<Reading>> read() override {
    auto found = nvml_->read();
    if (!found) return found.error();
    std::vector<Reading> readings;
    for (auto& [index, uuid, name, memory, sample] : *found) {
      readings.push_back({{index, std::move(uuid), std::move(name), memory},
                          {sample.utilization, sample.memory_used_bytes, sample.power_watts, sample.temperature_celsius,
                           sample.ecc_errors, sample.xid}});
    }
    return readings;
  }

 private:
  std::unique_ptr<cuda::Nvml> nvml_;
};

class DeadlineProbe final : public GpuProbe {
 public:
  DeadlineProbe(std::shared_ptr<GpuProbe> probe, std::chrono::milliseconds limit)
      : probe_(std::move(probe)), limit_(limit) {}

  Result<std::vector<Reading>> read() override {
    if (late_.valid()) {
      if (late_.wait_for(limit_) == std::future_status::timeout) return no_answer();
      late_ = {};  // an answer to an earlier question
    }
    std::promise<Result<std::vector<Reading>>> promise;
    auto answer = promise.get_future();
    // Detached: nobody can wait for a driver that never answers, not even at the end of the process.
    std::thread([probe = probe_, promise = std::move(promise)]() mutable {
      try {
        promise.set_value(probe->read());
      } catch (...) {
        promise.set_exception(std::current_exception());
      }
    }).detach();
    if (answer.wait_for(limit_) == std::future_status::timeout) {
      late_ = std::move(answer);
      return no_answer();
    }
    return answer.get();
  }

 private:
  Error no_answer() const {
    return {Errc::deadline_exceeded, "the driver has not answered for " + std::to_string(limit_.count()) + " ms"};
  }

  std::shared_ptr<GpuProbe> probe_;
  std::chrono::milliseconds limit_;
  std::future<Result<std::vector<Reading>>> late_;
};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool is_index(std::string_view entry) {
  return !entry.empty() && std::ranges::all_of(entry, [](char c) { return c >= '0' && c <= '9'; });
}

/// The position of the GPU that an entry of the variable names: an index, or the only one whose UUID begins so.
std::optional<std::size_t> find_gpu(std::span<const protocol::Gpu> all, std::string_view entry) {
  std::uint32_t index = 0;
  const bool by_index = is_index(entry);
  if (by_index) {
    const auto [end, failure] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
    if (failure != std::errc()) return std::nullopt;
  } else if (!entry.starts_with("GPU-")) {
    return std::nullopt;
  }
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (by_index ? all[i].index != index : !all[i].uuid.starts_with(entry)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

std::string counted(std::size_t gpus) { return std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs"); }

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// Why a node has that many GPUs.
std::string count_text(std::size_t found, std::size_t visible, const std::optional<std::string>& variable) {
  if (visible == found) return "this machine has " + counted(found);
  return std::string(visible_devices_variable) + " is \"" + *variable + "\", which leaves " + counted(visible) +
         " of the machine's " + std::to_string(found);
}

}  // namespace

Result<std::shared_ptr<GpuProbe>> make_nvml_probe() {
  auto nvml = cuda::Nvml::open();
  if (!nvml) return nvml.error();
  return with_deadline(std::make_shared<NvmlProbe>(std::move(*nvml)), answer_limit);
}

std::shared_ptr<GpuProbe> with_deadline(std::shared_ptr<GpuProbe> probe, std::chrono::milliseconds limit) {
  return std::make_shared<DeadlineProbe>(std::move(probe), limit);
}

VisibleGpus visible_gpus(std::span<const protocol::Gpu> all, const std::optional<std::string>& value) {
  VisibleGpus visible;
  if (!value) {
    visible.gpus.assign(all.begin(), all.end());
    return visible;
  }
  const std::string named = std::string(visible_devices_variable) + " is \"" + *value + "\"";
  const std::string_view whole = trimmed(*value);
  if (whole.empty() || whole == "NoDevFiles" || whole == "-1") return visible;
  const bool all_alike =
      std::ranges::all_of(all, [&all](const protocol::Gpu& gpu) { return gpu.name == all.front().name; });
  for (std::string_view rest = whole;;) {
    const auto comma = rest.find(',');
    const std::string_view entry = trimmed(rest.substr(0, comma));
    if (entry.starts_with("MIG-")) {
      visible.gpus.clear();
      visible.remark = named + ": parts of GPUs (MIG) are not supported yet, so this node offers no GPU";
      return visible;
    }
    const auto found = find_gpu(all, entry);
    if (!found) {
      visible.remark = named + ", which ends for CUDA before \"" + std::string(entry) + "\": that is no GPU here";
      return visible;
    }
    if (std::find(visible.gpus.begin(), visible.gpus.end(), all[*found]) != visible.gpus.end()) {
      visible.gpus.clear();
      visible.remark = named + ", which names a GPU twice and so is none for CUDA";
      return visible;
    }
    visible.gpus.push_back(all[*found]);
    if (is_index(entry) && !all_alike) {
      visible.remark = named + ", with numbers in the order of the PCI bus: unless CUDA_DEVICE_ORDER is PCI_BUS_ID, " +
                       "CUDA may number GPUs of several kinds otherwise, so better name them by UUID";
    }
    if (comma == std::string_view::npos) return visible;
    rest.remove_prefix(comma + 1);
  }
}

std::string gpu_type(const std::string& name) {
  std::string type;
  for (const char c : name) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    if (is_upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      type += is_upper ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!type.empty() && type.back() != '-') {
      type += '-';
    }
  }
  while (type.ends_with('-')) type.pop_back();
  return type;
}

Result<std::vector<std::string>> offer_gpus(NodeOptions& options, Result<std::shared_ptr<GpuProbe>> probe,
                                            const std::optional<std::string>& visible) {
  std::vector<std::string> remarks;
  std::optional<double> asked;
  if (const auto given = options.resources.find("gpu"); given != options.resources.end()) asked = given->second;
  auto readings = probe ? (*probe)->read() : Result<std::vector<GpuProbe::Reading>>(probe.error());
  if (!readings) {
    if (asked.value_or(0) > 0) {
      remarks.push_back("gpu=" + number_text(*asked) +
                        " is counted only, and no worker gets a device: " + readings.error().context);
    } else if (!asked && (readings.error().code != Errc::not_found || !visible_gpus({}, visible).remark.empty())) {
      // Most machines have no driver, and nobody there names GPUs.
      remarks.push_back("no GPU of this machine is offered: " + readings.error().context);
    }
    return remarks;
  }
  std::vector<protocol::Gpu> found;
  for (auto& reading : *readings) found.push_back(std::move(reading.gpu));
  auto chosen = visible_gpus(found, visible);
  if (!chosen.remark.empty()) remarks.push_back(std::move(chosen.remark));
  if (asked && *asked != std::floor(*asked)) {
    return Error{Errc::invalid_argument, "gpu=" + number_text(*asked) + ": a node offers whole GPUs"};
  }
  if (asked && *asked > static_cast<double>(chosen.gpus.size())) {
    return Error{Errc::invalid_argument, "gpu=" + number_text(*asked) + " is more than this node can offer: " +
                                             count_text(found.size(), chosen.gpus.size(), visible)};
  }
  if (asked) chosen.gpus.resize(static_cast<std::size_t>(*asked));
  options.gpus.offered = std::move(chosen.gpus);
  const auto& offered = options.gpus.offered;
  if (offered.empty()) return remarks;
  options.gpus.probe = *probe;
  options.resources["gpu"] = static_cast<double>(offered.size());
  const bool labelled = !options.labels.emplace("gpu_type", gpu_type(offered.front().name)).second;
  for (const auto& gpu : offered) {
    if (labelled || gpu.name == offered.front().name) continue;
    remarks.push_back(describe(gpu) + " is another than " + describe(offered.front()) +
                      ", after which the label gpu_type is named: set --labels gpu_type=... if jobs select by it");
    break;
  }
  return remarks;
}

}  // namespace weir::cluster
