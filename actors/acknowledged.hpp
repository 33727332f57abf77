#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>

#include "base/errc.hpp"
#include "protocol/training.hpp"
#include "runtime/clock.hpp"

namespace weir::actors {

/// Calls a method of the head's Jobs with `argument` until it is answered, for news that must not get lost: each
/// carries its number, so the head can tell a repetition. Fails with what the head refuses it with (conflict: this job
/// is no longer ours; malformed; ...).
template <auto Method, class Argument>
net::awaitable<Result<void>> until_acknowledged(runtime::ActorRef<protocol::Jobs> jobs, runtime::Clock& clock,
                                                Argument argument) {
  constexpr std::chrono::milliseconds pause{500};
  for (;;) {
    const Result<void> answer = co_await jobs.call<Method>(argument);
    if (answer) co_return answer;
    const auto& code = answer.error().code;
    if (code != Errc::deadline_exceeded && code != Errc::mailbox_full && code != Errc::exhausted) co_return answer;
    if (!co_await clock.sleep_for(pause)) co_return Error{Errc::cancelled, "the worker is stopping"};
  }
}

}  // namespace weir::actors
