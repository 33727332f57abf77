#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/errc.hpp"
#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/descriptors.hpp"
#include "cli/exit_code.hpp"
#include "cli/findings.hpp"
#include "cli/format.hpp"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string worker;
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
  std::error_code ignored;
  const fs::path dir = fs::absolute(settings.data_dir, ignored);
  fs::path nearest = dir;
  while (!fs::exists(nearest, ignored) && nearest != nearest.root_path()) nearest = nearest.parent_path();
  if (::access(nearest.c_str(), W_OK | X_OK) != 0) {
    findings.bad("data directory", dir.string() + " cannot be written", "choose another with --data-dir");
    return;
  }
  struct stat status {};
  if (nearest == dir && ::stat(dir.c_str(), &status) == 0 && (status.st_mode & 077) != 0) {
    findings.note("data directory", dir.string() + " may be looked into by others", "chmod -R go= " + dir.string());
  } else {
    findings.good("data directory", dir.string() + (nearest == dir ? "" : " (made when a head first starts)"));
  }
  const fs::path token = dir / "token";
  if (::stat(token.c_str(), &status) != 0) {
    findings.note("token", "none yet", "a head writes it when it first starts");
  } else if ((status.st_mode & 077) != 0) {
    findings.bad("token", token.string() + " may be read by others", "chmod 600 " + token.string());
  } else {
    findings.good("token", token.string());
  }
}

/// Fails with: cancelled (SIGINT).
Result<void> check_head(const Settings& settings, Findings& findings) {
  const Api api(settings);
  const std::string address = api.client().address();
  auto answer = api.client().request({.target = "/api/v1/version"});
  if (answer) {
    auto version = api.read(*answer);
    if (version) {
      findings.good("head", "weir " + text(*version, "version") + " at " + address);
    } else {
      findings.bad("head", "answers at " + address + ", but: " + version.error().context, "");
    }
    return {};
  }
  if (answer.error().code == Errc::cancelled) return answer.error();
  if (exit_code(answer.error()) != ExitCode::unreachable || !settings.address.empty()) {
    const bool named = exit_code(answer.error()) == ExitCode::unreachable;
    findings.bad("head", answer.error().context, named ? "check --address or WEIR_ADDRESS, which names it" : "");
    return {};
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
  return {};
}

bool can_run(const fs::path& program) {
  std::error_code ignored;
  return fs::is_regular_file(program, ignored) && ::access(program.c_str(), X_OK) == 0;
}

void check_worker(const fs::path& worker, Findings& findings) {
  if (worker.empty()) {
    findings.note("weir-worker", "not beside " + own_program().string(), "nodes need it; a head does not");
  } else if (!can_run(worker)) {
    findings.bad("weir-worker", worker.string() + " is no program that can be run", "name another with --worker");
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

int doctor(const Settings& settings, const Options& options) {
  Findings findings;
  const fs::path worker = options.worker.empty() ? worker_program() : fs::path(options.worker);
  findings.good("weir", std::string(WEIR_VERSION) + ", " + own_program().string());
  findings.good("cores", std::to_string(std::thread::hardware_concurrency()));
  check_descriptors(findings);
  check_data_dir(settings, findings);
  if (auto checked = check_head(settings, findings); !checked) return complain(checked.error());
  check_worker(worker, findings);
  check_gpus(can_run(worker) ? worker.string() : "", findings);
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
  auto options = std::make_shared<Options>();
  add_command(program, choice, "doctor", "Check what weir needs on this machine, and say what to do", options, doctor)
      ->add_option("--worker", options->worker, "The weir-worker program; by default the one beside this program");
}

}  // namespace weir::cli
