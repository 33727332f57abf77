#include "cli/findings.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/errc.hpp"
#include "cli/format.hpp"
#include "cluster/gpus.hpp"
#include "cuda/nccl_library.hpp"
#include "cuda/nvml.hpp"

namespace weir::cli {
namespace {

/// What `weir-worker devices --json` says; or why it says nothing.
struct WorkerReport {
  nlohmann::json said;  ///< null: nothing
  std::string complaint;
};

WorkerReport ask_worker(std::string program) {
  for (std::size_t at = 0; (at = program.find('\'', at)) != std::string::npos; at += 4) program.replace(at, 1, "'\\''");
  std::FILE* const pipe = ::popen(("'" + program + "' devices --json 2>&1").c_str(), "r");
  if (pipe == nullptr) return {nullptr, "it cannot be started"};
  constexpr std::size_t text_max = 64 * 1024;
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t read = std::fread(part.data(), 1, part.size(), pipe)) {
    if (text.size() < text_max) text.append(part.data(), read);
  }
  ::pclose(pipe);
  std::istringstream lines(text);
  WorkerReport report;
  for (std::string line; std::getline(lines, line);) {
    if (auto said = nlohmann::json::parse(line, nullptr, false); said.is_object()) report.said = std::move(said);
    if (!line.empty()) report.complaint = line;
  }
  if (report.complaint.empty()) report.complaint = "it says nothing";
  return report;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "this machine";
}

/// 13 of "13.0".
int major_of(const std::string& version) { return std::atoi(version.c_str()); }

/// The version of a library that this program can open by name; nothing if it cannot.
std::optional<std::string> version_here(const char* library, const char* function) {
  void* const opened = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);  // it stays open
  if (opened == nullptr) return std::nullopt;
  const auto ask = reinterpret_cast<std::size_t (*)()>(::dlsym(opened, function));
  return std::string(library) + (ask == nullptr ? "" : ", version " + std::to_string(ask()));
}

void check_cudnn(const nlohmann::json& worker, Findings& findings) {
  if (!text(worker, "cuda").empty()) {
    const std::string version = text(worker, "cudnn");
    if (!version.empty()) return findings.good("cuDNN", version + ", with LibTorch");
    return findings.note("cuDNN", "the LibTorch of weir-worker was built without it",
                         "convolutions are slow: build weir with a LibTorch that has cuDNN (CMAKE_PREFIX_PATH)");
  }
  if (const auto found = version_here("libcudnn.so.9", "cudnnGetVersion")) return findings.good("cuDNN", *found);
  if (const auto found = version_here("libcudnn.so.8", "cudnnGetVersion")) return findings.good("cuDNN", *found);
  findings.note("cuDNN", "libcudnn.so.9 cannot be loaded",
                "a LibTorch with CUDA needs it: install cuDNN 9 (NVIDIA's package cudnn9), or put its folder into "
                "LD_LIBRARY_PATH");
}

/// As the worker finds it, whose LibTorch may bring one along.
void check_nccl(const nlohmann::json& worker, Findings& findings) {
  std::string version = text(worker, "nccl");
  std::string problem = text(worker, "nccl_problem");
  if (!worker.is_object()) {
    const auto library = cuda::NcclLibrary::open();
    library ? version = cuda::nccl_version_text((*library)->version()) : problem = library.error().context;
  }
  if (!version.empty()) return findings.good("NCCL", "version " + version);
  findings.note(
      "NCCL", problem,
      "GPUs exchange gradients through the host's memory without it: install it, in one version on all nodes");
}

/// A program that the loader refuses names the library that it looked for.
std::optional<std::string> missing_library(const std::string& complaint) {
  constexpr std::string_view before = "error while loading shared libraries: ";
  const auto at = complaint.find(before);
  if (at == std::string::npos) return std::nullopt;
  const std::string rest = complaint.substr(at + before.size());
  return rest.substr(0, rest.find(':'));
}

/// Whether the workers that a node would start train on GPUs.
void check_training(const WorkerReport& worker, Findings& findings) {
  if (worker.said.is_object()) {
    const std::string cuda = text(worker.said, "cuda");
    std::string devices;
    for (const auto& device : member(worker.said, "devices")) devices += ", " + value_text(device);
    const std::string found = "LibTorch " + text(worker.said, "libtorch") + (cuda.empty() ? "" : " for CUDA " + cuda) +
                              ", which computes on processors" + (devices.empty() ? " only" : devices);
    if (!devices.empty()) {
      findings.good("training", found);
      const std::string problem = text(worker.said, "kernels_problem");
      if (problem.empty()) return;
      return findings.note("kernels", problem, "jobs on this GPU compress on processors, which is slower");
    }
    return findings.note("training", found,
                         "jobs that book a GPU end as FAILED on this node" +
                             std::string(cuda.empty() ? ": build weir with a LibTorch for CUDA (CMAKE_PREFIX_PATH)"
                                                      : ": see what is said of the driver"));
  }
  const auto missing = missing_library(worker.complaint);
  if (!missing)
    return findings.bad("training", "weir-worker does not say what it computes on: " + worker.complaint, "");
  const bool is_cudnn = missing->starts_with("libcudnn");
  findings.bad(
      "training", *missing + " is missing on " + host_name() + ", and weir-worker does not start without it",
      std::string(is_cudnn ? "install cuDNN 9 (NVIDIA's package cudnn9)" : "install the package that it is of") +
          ", or put its folder into LD_LIBRARY_PATH");
}

/// CUDA runs with every driver of its major version, and with later ones.
void check_driver(const cuda::Nvml& nvml, const std::vector<cuda::Gpu>& gpus, const nlohmann::json& worker,
                  Findings& findings) {
  const std::string driver = nvml.cuda_version();
  const std::string needed = text(worker, "cuda");
  if (needed.empty() || driver.empty() || major_of(driver) >= major_of(needed)) {
    return findings.good("NVIDIA driver", nvml.driver_version() + ", for CUDA up to " + driver);
  }
  std::string all;
  for (const auto& gpu : gpus) {
    all += (all.empty() ? "GPU " : ", GPU ") + std::to_string(gpu.index) + " (" + gpu.name + ")";
  }
  findings.bad("NVIDIA driver",
               "version " + nvml.driver_version() + " of " + host_name() + " is too old: it is for CUDA up to " +
                   driver + ", and the LibTorch of weir-worker for CUDA " + needed + ", so that nothing computes on " +
                   (all.empty() ? "a GPU" : all),
               "install a driver for CUDA " + needed + " or newer, or build weir with a LibTorch for CUDA " + driver);
}

/// The driver and the GPUs. Returns whether there is a driver.
bool check_hardware(const nlohmann::json& worker, Findings& findings) {
  auto nvml = cuda::Nvml::open();
  if (!nvml) {
    findings.note(
        "GPU", "none: " + nvml.error().context,
        nvml.error().code == Errc::not_found
            ? "jobs run on the processor's cores; for a GPU, install NVIDIA's driver (nvidia-smi must list it)"
            : "install NVIDIA's driver anew, or restart the machine after an update of it (nvidia-smi must "
              "list the GPU)");
    return false;
  }
  auto gpus = (*nvml)->read();
  if (!gpus) {
    findings.bad("GPU", gpus.error().context, "see what nvidia-smi says; the driver may have to be loaded anew");
    return false;
  }
  check_driver(**nvml, *gpus, worker, findings);
  std::vector<protocol::Gpu> all;
  for (const auto& gpu : *gpus) {
    all.push_back({gpu.index, gpu.uuid, gpu.name, gpu.memory_total_bytes});
    findings.good("GPU " + std::to_string(gpu.index),
                  gpu.name + ", " + bytes_text(static_cast<double>(gpu.memory_total_bytes)) + ", " + gpu.uuid);
  }
  if (gpus->empty()) findings.note("GPU", "the driver finds none", "see what lspci and dmesg say");
  if (const char* given = std::getenv(cluster::visible_devices_variable)) {
    const auto visible = cluster::visible_gpus(all, given);
    const std::string found = std::string(cluster::visible_devices_variable) + " leaves a node " +
                              std::to_string(visible.gpus.size()) + " of " + std::to_string(all.size());
    visible.remark.empty() ? findings.good("visible GPUs", found)
                           : findings.note("visible GPUs", found, visible.remark);
  }
  return true;
}

}  // namespace

std::string Findings::str() const {
  std::string out;
  for (const nlohmann::json& check : checks_) {
    std::string level = text(check, "level");
    level.resize(5, ' ');
    out += level + text(check, "what") + ": " + text(check, "found") + "\n";
    if (auto advice = text(check, "advice"); !advice.empty()) out += "     " + advice + "\n";
  }
  return out;
}

void check_gpus(const std::string& program, Findings& findings) {
  const WorkerReport worker = program.empty() ? WorkerReport() : ask_worker(program);
  const bool has_driver = check_hardware(worker.said, findings);
  const bool does_not_start = !program.empty() && !worker.said.is_object();
  if (does_not_start || (has_driver && !program.empty())) check_training(worker, findings);
  check_cudnn(worker.said, findings);
  check_nccl(worker.said, findings);
}

}  // namespace weir::cli
