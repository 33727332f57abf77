#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "cluster/services.hpp"
#include "runtime/testing/simulation.hpp"

namespace weir::cluster {

/// What parts of a head share, on virtual time: a strand and a clock, and what else a test puts there.
inline Services bare_services(runtime::testing::Simulation& simulation) {
  return {.options = {},
          .strand = net::make_strand(simulation.executor()),
          .files = {},
          .logs = {},
          .clock = simulation.clock(),
          .store = nullptr,
          .stream = nullptr,
          .random = {},
          .fence = 0};
}

/// What comes of a call, once it is known.
using Answer = std::shared_ptr<std::optional<Result<void>>>;

inline net::awaitable<void> keep(net::awaitable<Result<void>> call, Answer answer) {
  *answer = co_await std::move(call);
}

/// Begins a call on the strand, and lets happen what can without time passing.
inline Answer begin(const Services& services, runtime::testing::Simulation& simulation,
                    net::awaitable<Result<void>> call) {
  auto answer = std::make_shared<std::optional<Result<void>>>();
  net::co_spawn(services.strand, keep(std::move(call), answer), [](const std::exception_ptr&) {});
  simulation.settle();
  return answer;
}

}  // namespace weir::cluster
