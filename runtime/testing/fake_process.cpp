#include "runtime/testing/fake_process.hpp"

#include <signal.h>

#include <utility>

#include "base/errc.hpp"

namespace weir::runtime::testing {

struct FakeChild::State {
  ProcessSpec spec;
  std::uint32_t pid = 0;
  std::string output;
  Event news;  ///< set, and replaced, when there is output or the end
  Event ended;
  std::optional<ProcessExit> exit;
  std::vector<int> signals;
  bool ignores_sigterm = false;

  void tell() { std::exchange(news, {}).set(); }
  void end(ProcessExit how) {
    if (exit) return;
    exit = how;
    ended.set();
    tell();
  }
};

namespace {

using State = FakeChild::State;

net::awaitable<Result<std::string>> read_from(std::shared_ptr<State> state) {
  while (state->output.empty() && !state->exit) {
    Event news = state->news;
    const bool set = co_await news.wait();
    if (!set) co_return Error{Errc::cancelled, "reading a child's output"};
  }
  co_return std::exchange(state->output, {});
}

net::awaitable<Result<ProcessExit>> wait_for(std::shared_ptr<State> state) {
  const bool ended = co_await state->ended.wait();
  if (!ended) co_return Error{Errc::cancelled, "waiting for a child's end"};
  co_return *state->exit;
}

class FakeProcess final : public Process {
 public:
  explicit FakeProcess(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~FakeProcess() override { state_->end({.exit_code = {}, .signal = SIGKILL}); }

  std::uint32_t pid() const override { return state_->pid; }
  net::awaitable<Result<std::string>> read_output() override { return read_from(state_); }
  net::awaitable<Result<ProcessExit>> wait() override { return wait_for(state_); }
  void signal(int number) override {
    if (state_->exit) return;
    state_->signals.push_back(number);
    if (number == SIGTERM && state_->ignores_sigterm) return;
    state_->end({.exit_code = {}, .signal = number});
  }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace

const ProcessSpec& FakeChild::spec() const { return state_->spec; }
std::uint32_t FakeChild::pid() const { return state_->pid; }
void FakeChild::print(const std::string& text) const {
  state_->output += text;
  state_->tell();
}
void FakeChild::exit(int code) const { state_->end({.exit_code = code, .signal = {}}); }
void FakeChild::die(int signal) const { state_->end({.exit_code = {}, .signal = signal}); }
void FakeChild::ignore_sigterm() const { state_->ignores_sigterm = true; }
bool FakeChild::alive() const { return !state_->exit; }
const std::vector<int>& FakeChild::signals() const { return state_->signals; }

Event FakeChild::ended() const { return state_->ended; }

Result<std::unique_ptr<Process>> FakeProcessSpawner::spawn(net::any_io_executor, ProcessSpec spec) {
  if (auto failure = std::exchange(failure_, std::nullopt)) return *failure;
  auto state = std::make_shared<State>();
  state->spec = std::move(spec);
  state->pid = next_pid_++;
  children_.emplace_back(state);
  return std::make_unique<FakeProcess>(state);
}

}  // namespace weir::runtime::testing
