#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "base/errc.hpp"
#include "runtime/event.hpp"
#include "runtime/process.hpp"

extern "C" char** environ;

namespace weir::runtime {
namespace {

constexpr int lifeline_fd = 3;  // in the child
constexpr std::size_t input_bytes_max = 4096;
constexpr int lowest_parent_fd = 10;  // above the descriptors 0 to 3, which the child assigns

Error system_error(const std::string& what, int number) { return {Errc::io, what + ": " + std::strerror(number)}; }

/// Owns a file descriptor and closes it.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;

  static Result<Pipe> make() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("pipe", errno);
    Pipe low{Fd(ends[0]), Fd(ends[1])};
    Pipe pipe{Fd(::fcntl(low.read.get(), F_DUPFD_CLOEXEC, lowest_parent_fd)),
              Fd(::fcntl(low.write.get(), F_DUPFD_CLOEXEC, lowest_parent_fd))};
    if (pipe.read.get() < 0 || pipe.write.get() < 0) return system_error("pipe", errno);
    return pipe;
  }
};

/// Everything that the child needs between fork and exec, where it must not allocate memory.
struct Launch {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<char*> argv;
  std::vector<char*> envp;
  int output = -1;
  int lifeline = -1;
  bool input = false;  ///< the lifeline is also standard input
  int status = -1;
  pid_t parent = 0;
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  for (std::string& text : strings) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

/// Runs in the child after fork: async-signal-safe calls only.
[[noreturn]] void become_program(const Launch& launch) {
  auto give_up = [&launch](int number) {
    (void)!::write(launch.status, &number, sizeof number);
    ::_exit(127);
  };
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launch.parent) ::_exit(127);  // the parent died before the line above
  ::setpgid(0, 0);
  for (int number = 1; number < NSIG; ++number) {
    if (number != SIGKILL && number != SIGSTOP) ::signal(number, SIG_DFL);  // an ignored signal stays so over exec
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input = launch.input ? launch.lifeline : ::open("/dev/null", O_RDONLY);
  if (input < 0 || ::dup2(input, 0) < 0 || ::dup2(launch.output, 1) < 0 || ::dup2(launch.output, 2) < 0) give_up(errno);
  if (launch.lifeline >= 0 && ::dup2(launch.lifeline, lifeline_fd) < 0) give_up(errno);
  const unsigned first_foreign = launch.lifeline >= 0 ? lifeline_fd + 1 : lifeline_fd;
  if (::syscall(SYS_close_range, first_foreign, ~0u, CLOSE_RANGE_CLOEXEC) != 0) {
    for (int fd = static_cast<int>(first_foreign); fd < 65536; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  ::execve(launch.argv[0], launch.argv.data(), launch.envp.data());
  give_up(errno);
  ::_exit(127);
}

/// Forks, and waits until exec has succeeded or failed. Runs on the spawner's thread.
Result<pid_t> fork_and_exec(Launch& launch, Pipe& status) {
  launch.parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork", errno);
  if (pid == 0) become_program(launch);
  ::setpgid(pid, pid);  // parent and child both do it, so that it is done before either relies on it
  status.write.reset();
  int failed = 0;
  ssize_t got = 0;
  do got = ::read(status.read.get(), &failed, sizeof failed);
  while (got < 0 && errno == EINTR);
  if (got == 0) return pid;  // closed by exec
  ::waitpid(pid, nullptr, 0);
  return system_error(launch.arguments.front(), failed);
}

/// A child's state, shared with the wait for its end. Runs on the process's executor.
struct Child : std::enable_shared_from_this<Child> {
  Child(net::any_io_executor executor, pid_t p, Fd exit_fd, Fd output_fd, Fd lifeline_end)
      : pid(p),
        ended(executor, exit_fd.release()),
        output(executor, output_fd.release()),
        lifeline(std::move(lifeline_end)) {}

  void watch() {
    ended.async_wait(net::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& failed) {
                       if (!failed) self->reap(WNOHANG);
                     });
  }

  /// Kills what is left of the process group and collects the leader's exit status. Until then the leader's pid cannot
  /// be reused, so no other group can be hit.
  void reap(int flags) {
    if (exit) return;
    ::kill(-pid, SIGKILL);
    int status = 0;
    pid_t got = 0;
    do got = ::waitpid(pid, &status, flags);
    while (got < 0 && errno == EINTR);
    exit.emplace();
    if (got == pid && WIFEXITED(status)) exit->exit_code = WEXITSTATUS(status);
    if (got == pid && WIFSIGNALED(status)) exit->signal = WTERMSIG(status);
    lifeline.reset();
    done.set();
  }

  const pid_t pid;
  net::posix::stream_descriptor ended;
  net::posix::stream_descriptor output;
  Fd lifeline;
  std::optional<ProcessExit> exit;
  Event done;
};

class PosixProcess final : public Process {
 public:
  explicit PosixProcess(std::shared_ptr<Child> child) : child_(std::move(child)) { child_->watch(); }

  ~PosixProcess() override {
    boost::system::error_code ignored;
    child_->ended.close(ignored);
    child_->output.close(ignored);
    if (!child_->exit) child_->reap(0);
  }

  std::uint32_t pid() const override { return static_cast<std::uint32_t>(child_->pid); }

  net::awaitable<Result<std::string>> read_output() override { return read_from(child_); }
  net::awaitable<Result<ProcessExit>> wait() override { return wait_for(child_); }

  void signal(int number) override {
    if (!child_->exit) ::kill(-child_->pid, number);
  }

 private:
  static net::awaitable<Result<std::string>> read_from(std::shared_ptr<Child> child) {
    std::string text(16384, '\0');
    const auto [failed, count] = co_await child->output.async_read_some(net::buffer(text), nothrow);
    if (failed == net::error::eof) co_return std::string();
    if (failed == net::error::operation_aborted) co_return Error{Errc::cancelled, "reading a child's output"};
    if (failed) co_return Error{Errc::io, "reading a child's output: " + failed.message()};
    text.resize(count);
    co_return text;
  }

  static net::awaitable<Result<ProcessExit>> wait_for(std::shared_ptr<Child> child) {
    const bool ended = co_await child->done.wait();
    if (!ended) co_return Error{Errc::cancelled, "waiting for a child's end"};
    co_return *child->exit;
  }

  std::shared_ptr<Child> child_;
};

class PosixSpawner final : public ProcessSpawner {
 public:
  PosixSpawner() : thread_([this] { serve(); }) {}
  ~PosixSpawner() override {
    {
      std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  Result<std::unique_ptr<Process>> spawn(net::any_io_executor executor, ProcessSpec spec) override {
    auto output = Pipe::make();
    auto lifeline = Pipe::make();
    auto status = Pipe::make();
    if (!output || !lifeline || !status) return Error{Errc::io, "no descriptors left to start " + spec.program};
    const bool has_input = !spec.input.empty();
    if (spec.input.size() > input_bytes_max || (has_input && !spec.lifeline)) {
      return Error{Errc::invalid_argument,
                   "the input of " + spec.program + " is too long, or has no lifeline to go by"};
    }
    if (has_input && ::write(lifeline->write.get(), spec.input.data(), spec.input.size()) < 0) {  // fits into the pipe
      return system_error("pipe", errno);
    }
    Launch launch;
    launch.input = has_input;
    launch.arguments.push_back(spec.program);
    for (auto& argument : spec.arguments) launch.arguments.push_back(std::move(argument));
    if (spec.lifeline) spec.environment[lifeline_variable] = std::to_string(lifeline_fd);
    for (const auto& [name, value] : spec.environment) launch.environment.push_back(name + "=" + value);
    launch.argv = pointers(launch.arguments);
    launch.envp = pointers(launch.environment);
    launch.output = output->write.get();
    launch.lifeline = spec.lifeline ? lifeline->read.get() : -1;
    launch.status = status->write.get();

    const auto pid = on_thread([&] { return fork_and_exec(launch, *status); });
    if (!pid) return pid.error();
    Fd ended(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
    if (ended.get() < 0) {
      const int why = errno;
      ::kill(-*pid, SIGKILL);
      ::waitpid(*pid, nullptr, 0);
      return system_error("pidfd_open", why);
    }
    if (!spec.lifeline) lifeline->write.reset();
    auto child = std::make_shared<Child>(std::move(executor), *pid, std::move(ended), std::move(output->read),
                                         std::move(lifeline->write));
    return std::make_unique<PosixProcess>(std::move(child));
  }

 private:
  /// Runs `work` on the thread that forks, see make_process_spawner().
  Result<pid_t> on_thread(std::function<Result<pid_t>()> work) {
    std::packaged_task<Result<pid_t>()> task(std::move(work));
    auto result = task.get_future();
    {
      std::scoped_lock lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
    return result.get();
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::packaged_task<Result<pid_t>()>> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace

std::map<std::string, std::string> current_environment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

std::unique_ptr<ProcessSpawner> make_process_spawner() { return std::make_unique<PosixSpawner>(); }

}  // namespace weir::runtime
