#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "base/result.hpp"
#include "protocol/training.hpp"
#include "runtime/actor_system.hpp"

namespace weir::protocol {

struct HeadLinkOptions {
  std::string worker_id;
  runtime::Endpoint head;
  std::chrono::milliseconds lease{10'000};  ///< how long the worker goes on without the head
};

/// Links a worker process with its head, announces the worker with Coordinator.worker_up, and does both again whenever
/// the link breaks: a link is no more than a way to talk, and a worker goes on with its work while it is replaced.
/// `make_worker` is called once, when the head is known, and gives what the worker offers.
///
/// Returns with the reason why the worker must end: not_found or conflict (the head does not want it, or not any more),
/// deadline_exceeded (not linked for as long as the lease), unauthenticated, unsupported, invalid_argument (no attempt
/// can help), what `make_worker` fails with, or cancelled. To be awaited on a strand, or in a process of one thread.
net::awaitable<Error> hold_head_link(
    runtime::ActorSystem& system, HeadLinkOptions options,
    std::function<Result<runtime::ActorRef<Worker>>(runtime::ActorRef<Coordinator>)> make_worker);

}  // namespace weir::protocol
