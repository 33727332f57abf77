#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/strand.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "runtime/actor_system.hpp"
#include "runtime/event.hpp"
#include "runtime/testing/simulation.hpp"

namespace weir::runtime {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

/// An actor interface with one method of each kind.
struct Counter {
  static constexpr std::string_view type_name = "counter";
  virtual ~Counter() = default;
  virtual net::awaitable<Result<int>> add(int amount) = 0;
  virtual Result<int> value() = 0;
  virtual Result<void> note(std::string text) = 0;
  virtual Result<std::string> long_text(std::uint32_t bytes) = 0;
  virtual net::awaitable<Result<int>> add_slowly(int amount, std::int64_t milliseconds) = 0;
  virtual net::awaitable<Result<void>> fail(std::string how) = 0;
  virtual net::awaitable<Result<int>> add_through(ActorRef<Counter> other, int amount) = 0;
  virtual net::awaitable<Result<Segment>> echo(Segment bytes) = 0;
  virtual net::awaitable<Result<ActorRef<Counter>>> myself() = 0;
  static constexpr auto methods() {
    return runtime::methods<Method<&Counter::add, "add">, Method<&Counter::value, "value">,
                            Method<&Counter::note, "note">, Method<&Counter::long_text, "long_text">,
                            Method<&Counter::add_slowly, "add_slowly">, Method<&Counter::fail, "fail">,
                            Method<&Counter::add_through, "add_through">, Method<&Counter::echo, "echo">,
                            Method<&Counter::myself, "myself">>();
  }
};

class CounterActor final : public Actor<Counter> {
 public:
  explicit CounterActor(std::vector<std::string>* notes = nullptr) : notes_(notes) {}

  net::awaitable<Result<int>> add(int amount) override { co_return sum_ += amount; }
  Result<int> value() override { return sum_; }
  Result<void> note(std::string text) override {
    if (notes_ != nullptr) notes_->push_back(std::move(text));
    return {};
  }
  Result<std::string> long_text(std::uint32_t bytes) override { return std::string(bytes, 'x'); }
  net::awaitable<Result<int>> add_slowly(int amount, std::int64_t milliseconds) override {
    co_await clock().sleep_for(std::chrono::milliseconds(milliseconds));
    co_return sum_ += amount;
  }
  net::awaitable<Result<void>> fail(std::string how) override {
    if (how == "throw") throw std::runtime_error("thrown inside");
    co_return Error{Errc::conflict, how};
  }
  net::awaitable<Result<int>> add_through(ActorRef<Counter> other, int amount) override {
    co_return co_await other.call<&Counter::add>(amount);
  }
  net::awaitable<Result<Segment>> echo(Segment bytes) override { co_return bytes; }
  net::awaitable<Result<ActorRef<Counter>>> myself() override { co_return self<Counter>(); }
  net::awaitable<void> on_stop() override {
    if (notes_ != nullptr) notes_->push_back("stopped");
    co_return;
  }

 private:
  int sum_ = 0;
  std::vector<std::string>* notes_;
};

/// An interface that no actor implements.
struct Other {
  static constexpr std::string_view type_name = "other";
  virtual ~Other() = default;
  virtual Result<void> ask() = 0;
  static constexpr auto methods() { return runtime::methods<Method<&Other::ask, "ask">>(); }
};

/// Two linked systems in one simulation.
struct Pair {
  explicit Pair(std::uint64_t seed = 1)
      : simulation(seed),
        a({"a", simulation.executor(), simulation.clock(), simulation.transport(), "secret"}),
        b({"b", simulation.executor(), simulation.clock(), simulation.transport(), "secret"}) {
    auto at = b.listen({"b", 0});
    auto peer = simulation.run(a.connect(*at));
    EXPECT_TRUE(peer.has_value()) << peer.error().message();
  }

  testing::Simulation simulation;
  ActorSystem a;
  ActorSystem b;
};

/// Starts a call and keeps its result. The test must step the simulation.
template <class T>
struct Started {
  std::optional<Result<T>> result;
  explicit Started(Pair& pair, net::awaitable<Result<T>> call) : Started(pair.simulation, std::move(call)) {}
  Started(testing::Simulation& simulation, net::awaitable<Result<T>> call) {
    net::co_spawn(net::make_strand(simulation.executor()), std::move(call),
                  [this](const std::exception_ptr&, Result<T> r) { result = std::move(r); });
  }
};

}  // namespace weir::runtime
