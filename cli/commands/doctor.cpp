#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/descriptors.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cluster/gpus.hpp"
#include "cuda/nvml.hpp"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;

struct None {};

/// Findings, in the order they were made. After a `bad` one something must be done, after a `note` perhaps.
class Findings {
 public:
  void good(const std::string& what, const std::string& found) { add("ok", what, found, ""); }
  void note(const std::string& what, const std::string& found, const std::string& advice) {
    add("note", what, found, advice);
  }
  void bad(const std::string& what, const std::string& found, const std::string& advice) {
    add("bad", what, found, advice);
    healthy_ = false;
  }
  bool healthy() const { return healthy_; }
  nlohmann::json json() const { return {{"healthy", healthy_}, {"checks", checks_}}; }
  std::string str() const {
    std::string out;
    for (const nlohmann::json& check : checks_) {
      std::string level = text(check, "level");
      level.resize(5, ' ');
      out += level + text(check, "what") + ": " + text(check, "found") + "\n";
      if (auto advice = text(check, "advice"); !advice.empty()) out += "     " + advice + "\n";
    }
    return out;
  }

 private:
  void add(const char* level, const std::string& what, const std::string& found, const std::string& advice) {
    checks_.push_back({{"level", level}, {"what", what}, {"found", found}, {"advice", advice}});
  }

  nlohmann::json checks_ = nlohmann::json::array();
  bool healthy_ = true;
};

void check_descriptors(Findings& findings) {
  constexpr std::uint64_t enough = 16 * 1024;
  const auto limits = descriptor_limits();
  std::string found = std::to_string(limits.now) + " per process";
  if (limits.possible > limits.now) found += ", which heads and nodes raise to " + std::to_string(limits.possible);
  if (limits.possible >= enough) return findings.good("open files", found);
  findings.note("open files", found,
                "a head takes " + std::to_string(http_connections(limits.possible)) +
                    " HTTP connections at once with so many; for more, raise the hard limit (ulimit -Hn)");
}

void check_data_dir(const Settings& settings, Findings& findings) {
  const fs::path& dir = settings.data_dir;
  std::error_code ignored;
  fs::path nearest = dir;
  while (!nearest.empty() && !fs::exists(nearest, ignored) && nearest.has_parent_path())
    nearest = nearest.parent_path();
  if (::access(nearest.c_str(), W_OK | X_OK) != 0) {
    findings.bad("data directory", dir.string() + " cannot be written", "choose another with --data-dir");
    return;
  }
  findings.good("data directory", dir.string() + (nearest == dir ? "" : " (made when a head first starts)"));
  const fs::path token = dir / "token";
  struct stat status {};
  if (::stat(token.c_str(), &status) != 0) {
    findings.note("token", "none yet", "a head writes it when it first starts");
  } else if ((status.st_mode & 077) != 0) {
    findings.bad("token", token.string() + " may be read by others", "chmod 600 " + token.string());
  } else {
    findings.good("token", token.string());
  }
}

void check_head(const Settings& settings, Findings& findings) {
  const Api api(settings);
  const std::string address = api.client().address();
  if (auto version = api.get("/api/v1/version")) {
    findings.good("head", "weir " + text(*version, "version") + " at " + address);
    return;
  } else if (exit_code(version.error()) != ExitCode::unreachable) {
    findings.bad("head", "answers at " + address + ", but: " + version.error().context, "");
    return;
  }
  findings.note("head", "none at " + address, "start one with `weir up`");
  for (const std::uint16_t port : {std::uint16_t{6380}, std::uint16_t{8265}}) {
    boost::asio::io_context io;
    boost::asio::ip::tcp::acceptor probe(io, boost::asio::ip::tcp::v4());
    boost::system::error_code taken;
    probe.set_option(boost::asio::socket_base::reuse_address(true));
    probe.bind({boost::asio::ip::address_v4::loopback(), port}, taken);
    const std::string what = "port " + std::to_string(port);
    if (taken) {
      findings.note(what, "in use by another program", "give the head another with --listen or --http");
    } else {
      findings.good(what, "free");
    }
  }
}

void check_worker(Findings& findings) {
  const fs::path worker = worker_program();
  if (worker.empty()) {
    findings.note("weir-worker", "not beside " + own_program().string(), "nodes need it; a head does not");
  } else {
    findings.good("weir-worker", worker.string());
  }
  // Debian's alternatives determine which BLAS LibTorch uses.
  std::error_code none;
  for (const char* triplet : {"x86_64-linux-gnu", "aarch64-linux-gnu"}) {
    const fs::path link = std::string("/etc/alternatives/libblas.so.3-") + triplet;
    const fs::path target = fs::read_symlink(link, none);
    if (none) continue;
    if (target.string().find("openblas") != std::string::npos || target.string().find("mkl") != std::string::npos) {
      findings.good("BLAS", target.string());
    } else {
      findings.bad("BLAS", target.string() + " is a slow reference version", "apt-get install libopenblas0-pthread");
    }
  }
}

void check_datasets(Findings& findings) {
  const fs::path folder = "/usr/share/datasets/fashion-mnist";
  std::error_code none;
  for (const char* name : {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
                           "t10k-labels-idx1-ubyte.gz"}) {
    if (!fs::exists(folder / name, none)) {
      findings.note("dataset fashion-mnist", (folder / name).string() + " is missing",
                    "apt-get install dataset-fashion-mnist, or give a job's dataset.path");
      return;
    }
  }
  findings.good("dataset fashion-mnist", folder.string());
}

/// The name and the handle of the first library of these that can be opened; it stays open. No name if there is none.
std::pair<std::string, void*> open_first(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* library = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return {name, library};
  }
  return {};
}

void check_cudnn(Findings& findings) {
  const auto [name, library] = open_first({"libcudnn.so.9", "libcudnn.so.8"});
  if (library == nullptr) {
    findings.note("cuDNN", "libcudnn.so.9 cannot be loaded",
                  "a LibTorch with CUDA needs it: install cuDNN 9 (NVIDIA's package cudnn9), or put its folder into "
                  "LD_LIBRARY_PATH");
    return;
  }
  const auto version = reinterpret_cast<std::size_t (*)()>(::dlsym(library, "cudnnGetVersion"));
  findings.good("cuDNN", name + (version == nullptr ? "" : ", version " + std::to_string(version())));
}

void check_nccl(Findings& findings) {
  const auto [name, library] = open_first({"libnccl.so.2"});
  if (library == nullptr) {
    findings.note("NCCL", "libnccl.so.2 cannot be loaded",
                  "GPUs exchange gradients through the host's memory without it: install NCCL (NVIDIA's package "
                  "libnccl2), or put its folder into LD_LIBRARY_PATH");
    return;
  }
  int version = 0;
  const auto ask = reinterpret_cast<int (*)(int*)>(::dlsym(library, "ncclGetVersion"));
  if (ask == nullptr || ask(&version) != 0) version = 0;
  findings.good("NCCL",
                name + (version == 0 ? ""
                                     : ", version " + std::to_string(version / 10000) + "." +
                                           std::to_string(version / 100 % 100) + "." + std::to_string(version % 100)));
}

/// Whether the workers that a node would start train on GPUs.
void check_libtorch(Findings& findings) {
  std::string program = worker_program().string();
  if (program.empty()) return;
  for (std::size_t at = 0; (at = program.find('\'', at)) != std::string::npos; at += 4) program.replace(at, 1, "'\\''");
  std::FILE* const pipe = ::popen(("'" + program + "' devices 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return;
  std::array<char, 256> line{};
  const bool said = std::fgets(line.data(), line.size(), pipe) != nullptr;
  const bool has_gpus = ::pclose(pipe) == 0;
  std::string text = said ? line.data() : "weir-worker does not say what it computes on";
  while (text.ends_with('\n')) text.pop_back();
  if (has_gpus) return findings.good("training", text);
  findings.note(
      "training", text,
      "jobs that book a GPU end as FAILED on this node: build weir with a LibTorch for CUDA (CMAKE_PREFIX_PATH)");
}

void check_gpus(Findings& findings) {
  auto nvml = cuda::Nvml::open();
  if (!nvml) {
    findings.note(
        "GPU", "none: " + nvml.error().context,
        nvml.error().code == Errc::not_found
            ? "jobs run on the processor's cores; for a GPU, install NVIDIA's driver (nvidia-smi must list it)"
            : "install NVIDIA's driver anew, or restart the machine after an update of it (nvidia-smi must "
              "list the GPU)");
  } else if (auto gpus = (*nvml)->read(); !gpus) {
    findings.bad("GPU", gpus.error().context, "see what nvidia-smi says; the driver may have to be loaded anew");
  } else {
    findings.good("NVIDIA driver", (*nvml)->driver_version() + ", for CUDA up to " + (*nvml)->cuda_version());
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
    check_libtorch(findings);
  }
  check_cudnn(findings);
  check_nccl(findings);
}

int doctor(const Settings& settings, const None&) {
  Findings findings;
  findings.good("weir", std::string(WEIR_VERSION) + ", " + own_program().string());
  findings.good("cores", std::to_string(std::thread::hardware_concurrency()));
  check_descriptors(findings);
  check_data_dir(settings, findings);
  check_head(settings, findings);
  check_worker(findings);
  check_gpus(findings);
  check_datasets(findings);
  if (settings.json) {
    print(findings.json());
  } else {
    print(findings.str());
  }
  return findings.healthy() ? ExitCode::ok : ExitCode::failed;
}

}  // namespace

void add_doctor(CLI::App& program, Choice& choice) {
  add_command(program, choice, "doctor", "Check what weir needs on this machine, and say what to do",
              std::make_shared<None>(), doctor);
}

}  // namespace weir::cli
