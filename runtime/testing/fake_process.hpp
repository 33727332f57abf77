#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/event.hpp"
#include "runtime/process.hpp"

namespace weir::runtime::testing {

/// The script of one pretended child process. Shared by the test and the code under test; one thread.
class FakeChild {
 public:
  struct State;
  explicit FakeChild(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const ProcessSpec& spec() const;
  std::uint32_t pid() const;
  /// Appears in the child's output.
  void print(const std::string& text) const;
  /// The child ends, and its output with it.
  void exit(int code) const;
  void die(int signal) const;
  /// SIGTERM does nothing from now on.
  void ignore_sigterm() const;
  bool alive() const;
  const std::vector<int>& signals() const;  ///< all it was sent
  Event ended() const;                      ///< set when it is not alive any more

 private:
  std::shared_ptr<State> state_;
};

/// Starts nothing. Children live until the test, a signal, or the destruction of their Process ends them.
class FakeProcessSpawner final : public ProcessSpawner {
 public:
  Result<std::unique_ptr<Process>> spawn(net::any_io_executor executor, ProcessSpec spec) override;

  /// The next spawn fails with this.
  void fail_next(Error why) { failure_ = std::move(why); }
  const std::vector<FakeChild>& children() const { return children_; }

 private:
  std::vector<FakeChild> children_;
  std::optional<Error> failure_;
  std::uint32_t next_pid_ = 1000;
};

}  // namespace weir::runtime::testing
