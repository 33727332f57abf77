#include "bench/schedule.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/head.hpp"
#include "cluster/job_queue.hpp"
#include "cluster/node.hpp"
#include "cluster/sqlite_store.hpp"
#include "runtime/event_loop.hpp"
#include "runtime/process.hpp"
#include "runtime/tcp_transport.hpp"

namespace weir::bench {
namespace {

namespace net = boost::asio;

using Milliseconds = std::chrono::duration<double, std::milli>;
using SteadyClock = std::chrono::steady_clock;

constexpr std::uint32_t nodes = 150;
constexpr std::uint32_t queued = 200;
constexpr std::uint32_t growing_nodes = 1000;  // of the case that tries the impossible jobs again
constexpr std::uint32_t impossible_jobs = 10'000;
constexpr int samples = 200;
constexpr const char* secret = "bench";
constexpr const char* version = "bench";

/// Why schedule() ends early.
struct Ended {
  int code = 1;
  std::string reason;  ///< empty after a signal
};

[[noreturn]] void fail(const std::string& what) { throw Ended{.code = 1, .reason = what}; }

/// The catalog of a cluster that does not train.
nlohmann::json catalog() {
  const auto one = [](const char* name) {
    return nlohmann::json::array({{{"name", name}, {"summary", ""}, {"topologies", {"ring"}}}});
  };
  return {{"models", one("lenet")},     {"datasets", one("fashion-mnist")},
          {"compressors", one("none")}, {"memories", one("none")},
          {"modes", one("sync")},       {"topologies", one("ring")},
          {"optimizers", one("sgd")},   {"lr_schedules", one("constant")}};
}

nlohmann::json job(std::uint32_t workers, const nlohmann::json& per_worker) {
  return {{"model", {{"name", "lenet"}}},
          {"dataset", {{"name", "fashion-mnist"}}},
          {"resources", {{"workers", workers}, {"per_worker", per_worker}}}};
}

/// A temporary directory, removed by the destructor.
class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "weir-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail("no temporary directory");
    path_ = name;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Joins the head as 150 agents, and runs until killed.
[[noreturn]] void be_nodes(const std::string& head) {
  spdlog::set_level(spdlog::level::off);  // that the head goes at the end is no news
  net::io_context io(1);
  runtime::SystemClock clock;
  const auto transport = runtime::make_tcp_transport(io.get_executor());
  const auto spawner = runtime::make_process_spawner();
  std::vector<std::unique_ptr<cluster::Node>> agents;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    cluster::NodeOptions options;
    options.head = head;
    options.secret = secret;
    options.name = "n" + std::to_string(i);
    options.host = "127.0.0.1";
    options.resources = {{"cpu", 8}, {"memory", 64e9}};
    options.version = version;
    options.worker_program = "/bin/true";
    agents.push_back(
        std::make_unique<cluster::Node>(std::move(options), io.get_executor(), clock, *transport, *spawner));
    net::co_spawn(io, agents.back()->run(), [](const std::exception_ptr&, const Result<void>& ended) {
      if (ended) return;
      std::cerr << "bench schedule: " << ended.error().message() << "\n";
      std::exit(1);
    });
  }
  runtime::run(io);
  std::exit(0);
}

/// The process with the agents. It is forked before this process has threads, and starts when it gets the address of a
/// head.
class Agents {
 public:
  Agents() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) fail("no pipe");
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) fail("no process");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) std::exit(1);
      ::close(ends[1]);
      std::array<char, 64> address{};
      if (::read(ends[0], address.data(), address.size() - 1) <= 0) std::exit(1);
      be_nodes(address.data());
    }
    ::close(ends[0]);
    told_ = ends[1];
  }
  ~Agents() {
    ::close(told_);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void join(const std::string& head) const {
    if (::write(told_, head.data(), head.size()) < 0) fail("the agents' process is gone");
  }

 private:
  pid_t pid_ = 0;
  int told_ = -1;
};

/// A head as `weir head` runs it, without its HTTP side. After a signal to end, wait() throws Ended.
class HeadProcess {
 public:
  explicit HeadProcess(const std::filesystem::path& data_dir)
      : transport_(runtime::make_tcp_transport(io_.get_executor())) {
    auto store =
        cluster::open_sqlite_store({.file = data_dir / "weir.db"}, writer_.get_executor(), readers_.get_executor());
    if (!store) fail(store.error().message());
    cluster::HeadOptions options;
    options.listen = "127.0.0.1:0";
    options.data_dir = data_dir;
    options.node_secret = secret;
    options.catalog = catalog();
    options.version = version;
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (!error) signal_ = number;
    });
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { runtime::run(io_); });
    auto head = result_of(cluster::Head::start(std::move(options), io_.get_executor(), clock_, *transport_, *store));
    if (!head) {
      io_.stop();  // the threads are joined
      fail(head.error().message());
    }
    head_ = std::move(*head);
  }
  ~HeadProcess() {
    if (head_) net::co_spawn(io_, head_->stop(), net::use_future).get();
    work_.reset();
    io_.stop();
  }

  cluster::Head* operator->() { return head_.get(); }

  template <class T>
  T wait(net::awaitable<T> task) {
    if (const int number = signal_; number != 0) throw Ended{.code = 128 + number, .reason = {}};
    return result_of(std::move(task));
  }

 private:
  template <class T>
  T result_of(net::awaitable<T> task) {
    return net::co_spawn(io_, std::move(task), net::use_future).get();
  }

  net::thread_pool writer_{1};
  net::thread_pool readers_{2};
  net::io_context io_{2};
  net::executor_work_guard<net::io_context::executor_type> work_{net::make_work_guard(io_)};
  net::signal_set signals_{io_, SIGINT, SIGTERM, SIGHUP};
  std::atomic<int> signal_ = 0;  ///< that has come; 0: none
  runtime::SystemClock clock_;
  std::unique_ptr<runtime::Transport> transport_;
  std::unique_ptr<cluster::Head> head_;
  std::vector<std::jthread> threads_;
};

struct Sample {
  double p50 = 0;
  double p99 = 0;
};

/// Times `act`; in milliseconds.
Sample measure(const std::function<void()>& act) {
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) {
    const auto begin = SteadyClock::now();
    act();
    times.push_back(Milliseconds(SteadyClock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

/// Times a small write that is on the disk when it returns.
Sample measure_disk(const std::filesystem::path& directory) {
  const int file = ::open((directory / "bare").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) fail("no file");
  const std::string page(4096, 'x');
  const Sample taken = measure([&] {
    if (::write(file, page.data(), page.size()) < 0 || ::fdatasync(file) != 0) fail("cannot write");
  });
  ::close(file);
  return taken;
}

/// Times what the head's strand does in one turn when a node joins and a long queue of equal jobs fits no idle node.
Sample measure_growth() {
  std::vector<cluster::NodeOffer> offers;
  for (std::uint32_t i = 0; i < growing_nodes; ++i) {
    const std::string name = "n" + std::to_string(i);
    const protocol::Resources resources{{"cpu", 8}, {"memory", 64e9}};
    offers.push_back({name, name, resources, resources, true, {}});
  }
  cluster::JobQueue queue;
  const cluster::Gang gang{{{8, {{"cpu", 1}, {"gpu", 1}}}}};
  for (std::uint64_t order = 0; order < impossible_jobs; ++order) {
    queue.add("job-" + std::to_string(order), {0, order}, gang);
  }
  std::uint64_t growth = 0;
  return measure([&] {
    if (queue.next(offers, ++growth)) fail("an impossible job is placed");
  });
}

void print_growth(const Options& options, const Sample& ours) {
  if (options.json) {
    const nlohmann::json line{{"bench", "schedule"},
                              {"name", "growth"},
                              {"case", {{"nodes", growing_nodes}, {"queued", impossible_jobs}}},
                              {"metrics", {{"p50_ms", ours.p50}, {"p99_ms", ours.p99}}}};
    std::cout << line.dump() << std::endl;
    return;
  }
  std::cout << std::left << std::setw(12) << "growth" << std::right << std::fixed << std::setprecision(2)
            << std::setw(10) << ours.p50 << " ms p50" << std::setw(10) << ours.p99 << " ms p99" << std::endl;
}

void print(const Options& options, const std::string& name, const Sample& ours, const Sample& disk) {
  if (options.json) {
    const nlohmann::json line{
        {"bench", "schedule"},
        {"name", name},
        {"case", {{"nodes", nodes}, {"queued", queued}}},
        {"metrics",
         {{"p50_ms", ours.p50}, {"p99_ms", ours.p99}, {"disk_p50_ms", disk.p50}, {"disk_p99_ms", disk.p99}}}};
    std::cout << line.dump() << std::endl;
    return;
  }
  std::cout << std::left << std::setw(12) << name << std::right << std::fixed << std::setprecision(2) << std::setw(10)
            << ours.p50 << " ms p50" << std::setw(10) << ours.p99 << " ms p99" << std::setw(10) << disk.p50
            << " ms bare write" << std::endl;
}

void run(const Options& options) {
  const std::regex filter(options.filter);
  if (std::regex_search("growth", filter)) print_growth(options, measure_growth());
  const Agents agents;
  spdlog::set_level(spdlog::level::err);
  const Directory directory;
  HeadProcess head(directory.path());
  agents.join(head->control_address());
  // A job with one worker per node fits as soon as the last node has sent its first heartbeat.
  while (head.wait(head->validate(job(nodes, {{"cpu", 8}}))).value().placement.at("fits") != true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const auto submit = [&] {
    const auto submission = head.wait(head->submit(job(8, {{"cpu", 1}, {"gpu", 1}}), ""));
    if (!submission || !submission->job) fail("a job is refused");
  };
  for (std::uint32_t i = 0; i < queued; ++i) submit();

  struct Row {
    std::string name;
    std::function<void()> act;
  };
  const std::vector<Row> rows = {{"submit", submit},
                                 {"validate",
                                  [&] {
                                    head.wait(head->validate(job(512, {{"cpu", 1}, {"gpu", 1}}))).value();
                                  }},
                                 {"list", [&] { head.wait(head->jobs({})).value(); }}};
  for (const Row& row : rows) {
    if (!std::regex_search(row.name, filter)) continue;
    const Sample ours = measure(row.act);
    print(options, row.name, ours, measure_disk(directory.path()));
  }
}

}  // namespace

int schedule(const Options& options) {
  try {
    run(options);
    return 0;
  } catch (const Ended& ended) {
    if (!ended.reason.empty()) std::cerr << "bench schedule: " << ended.reason << "\n";
    return ended.code;
  }
}

}  // namespace weir::bench
