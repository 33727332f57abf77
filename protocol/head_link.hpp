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
  std::chrono::milliseconds lease{10'000};  ///< how long the worker continues without the head
};

/// Opens the link of a worker process to its head, announces the worker with Coordinator.worker_up, and does both again
/// whenever the link breaks; the worker continues its work meanwhile. `make_worker` is called once, when the head is
/// known, and returns the actor to announce.
///
/// Returns the reason why the worker must end: not_found or conflict (the head does not want it, or does not want it
/// any more), deadline_exceeded (no link for the time of the lease), unauthenticated, unsupported, invalid_argument
/// (trying again cannot help, or `make_worker` has failed), or cancelled. To be awaited on a strand, or in a process of
/// one thread.
net::awaitable<Error> hold_head_link(
    runtime::ActorSystem& system, HeadLinkOptions options,
    std::function<Result<runtime::ActorRef<Worker>>(runtime::ActorRef<Coordinator>)> make_worker);

}  // namespace weir::protocol
