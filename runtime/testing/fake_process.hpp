#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/event.hpp"
#include "runtime/process.hpp"

namespace weir::runtime::testing {

/// Controls one simulated child process. Shared by the test and the code under test. Single-threaded.
class FakeChild {
 public:
  struct State;
  explicit FakeChild(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const ProcessSpec& spec() const;
  std::uint32_t pid() const;
  /// Appends `text` to the child's output.
  void print(const std::string& text) const;
  /// Ends the child, and with it its output.
  void exit(int code) const;
  void die(int signal) const;
  /// From now on SIGTERM has no effect.
  void ignore_sigterm() const;
  bool alive() const;
  const std::vector<int>& signals() const;  ///< all signals that it was sent
  Event ended() const;                      ///< set when the child is not alive any more

 private:
  std::shared_ptr<State> state_;
};

/// A ProcessSpawner that starts no real processes. A child lives until the test, a signal, or the destruction of its
/// Process ends it.
class FakeProcessSpawner final : public ProcessSpawner {
 public:
  Result<std::unique_ptr<Process>> spawn(net::any_io_executor executor, ProcessSpec spec) override;

  /// Makes the next spawn() fail with `why`.
  void fail_next(Error why) { failure_ = std::move(why); }
  const std::vector<FakeChild>& children() const { return children_; }

 private:
  std::vector<FakeChild> children_;
  std::optional<Error> failure_;
  std::uint32_t next_pid_ = 1000;
};

}  // namespace weir::runtime::testing
