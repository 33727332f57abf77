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

/// The program to start. There is no shell: the arguments reach the program as they are.
struct ProcessSpec {
  std::string program;                             ///< a path
  std::vector<std::string> arguments;              ///< without the program's own name
  std::map<std::string, std::string> environment;  ///< complete: nothing else is inherited
  /// Gives the child a pipe that reaches its end of file when this process is gone, however it dies. The descriptor's
  /// number is in WEIR_LIFELINE_FD.
  bool lifeline = true;
  /// If not empty, the lifeline is also the child's standard input, and the child can read this text there before the
  /// end of file. A secret passed this way appears neither in the arguments nor in the environment. At most 4096 bytes;
  /// needs a lifeline.
  std::string input = {};
};

/// Name of the environment variable that carries the lifeline's descriptor.
inline constexpr const char* lifeline_variable = "WEIR_LIFELINE_FD";

/// This process's own environment, to be passed on in whole or in part.
std::map<std::string, std::string> current_environment();

struct ProcessExit {
  std::optional<int> exit_code;  ///< if it exited
  std::optional<int> signal;     ///< if it was killed
};

/// A child process. Destroying it kills the child's whole process group and leaves no zombie. Its members must be
/// called on the executor it was spawned with, which is a strand or belongs to one thread.
class Process {
 public:
  virtual ~Process() = default;

  virtual std::uint32_t pid() const = 0;

  /// Waits for the next piece of the child's standard output and error; empty at the end. One reader at a time.
  /// Fails with: io, cancelled.
  virtual net::awaitable<Result<std::string>> read_output() = 0;

  /// Waits for the child's end. May be called several times, also concurrently. Fails with: cancelled.
  virtual net::awaitable<Result<ProcessExit>> wait() = 0;

  /// Sends a signal to the child's process group. Does nothing once the child has ended.
  virtual void signal(int number) = 0;
};

/// Starts child processes. Injected; any thread.
class ProcessSpawner {
 public:
  virtual ~ProcessSpawner() = default;

  /// Starts a child that leads its own process group and dies with this process. Blocks until exec, about a
  /// millisecond. Fails with: io (program missing or not executable, no process or descriptor left), invalid_argument
  /// (input too long, or without a lifeline).
  virtual Result<std::unique_ptr<Process>> spawn(net::any_io_executor executor, ProcessSpec spec) = 0;
};

/// Makes the spawner that starts real processes. Children are forked from one thread that lives as long as the spawner:
/// the kernel sends a child its parent-death signal when the *thread* that forked it ends.
std::unique_ptr<ProcessSpawner> make_process_spawner();

}  // namespace weir::runtime
