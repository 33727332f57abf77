#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "runtime/asio.hpp"

namespace weir::runtime {

/// What to start. There is no shell: the arguments reach the program as they are.
struct ProcessSpec {
  std::string program;                             ///< a path
  std::vector<std::string> arguments;              ///< without the program's own name
  std::map<std::string, std::string> environment;  ///< all of it: nothing is inherited that does not stand here
  /// The child gets a pipe that reaches its end when this process is gone, however it dies: its number is in
  /// WEIR_LIFELINE_FD.
  bool lifeline = true;
  /// If not empty, the lifeline is the child's standard input as well, and this is what it reads there before the end:
  /// a secret given so shows neither in the arguments nor in the environment. At most 4096 bytes; needs a lifeline.
  std::string input = {};
};

/// Name of the environment variable that carries the lifeline's descriptor.
inline constexpr const char* lifeline_variable = "WEIR_LIFELINE_FD";

/// This process's own environment, to be passed on or thinned out.
std::map<std::string, std::string> current_environment();

struct ProcessExit {
  std::optional<int> exit_code;  ///< if it exited
  std::optional<int> signal;     ///< if it was killed
};

/// A child process. Destroying it kills the child's whole process group and leaves no zombie. Its members run on the
/// executor it was spawned with (a strand, or of one thread).
class Process {
 public:
  virtual ~Process() = default;

  virtual std::uint32_t pid() const = 0;

  /// The next piece of what the child wrote to its standard output and error; empty at the end. One reader at a time.
  /// Fails with: io, cancelled.
  virtual net::awaitable<Result<std::string>> read_output() = 0;

  /// Waits for the end. May be called by several and again. Fails with: cancelled.
  virtual net::awaitable<Result<ProcessExit>> wait() = 0;

  /// Sends a signal to the child's process group. Nothing happens once it has ended.
  virtual void signal(int number) = 0;
};

/// Starts child processes. Injected; any thread.
class ProcessSpawner {
 public:
  virtual ~ProcessSpawner() = default;

  /// The child leads its own process group and dies with this process. Takes as long as fork and exec do, about a
  /// millisecond. Fails with: io (program missing or not executable, no process or descriptor left).
  virtual Result<std::unique_ptr<Process>> spawn(net::any_io_executor executor, ProcessSpec spec) = 0;
};

/// In a child that was given a lifeline: true once the parent is gone. False at once if there is none, or if cancelled.
net::awaitable<bool> wait_for_parents_end();

/// The real one. Children are forked from one thread that lives as long as the spawner: the kernel sends a child its
/// parent-death signal when the *thread* that forked it ends.
std::unique_ptr<ProcessSpawner> make_process_spawner();

}  // namespace weir::runtime
