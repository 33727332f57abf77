#include "protocol/head_link.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "base/errc.hpp"
#include "runtime/event.hpp"

namespace weir::protocol {
namespace {

using net::experimental::awaitable_operators::operator||;
using MakeWorker = std::function<Result<runtime::ActorRef<Worker>>(runtime::ActorRef<Coordinator>)>;

constexpr std::chrono::milliseconds pause{200};

/// The state of hold_head_link(), shared with the callback for lost peers.
struct Hold {
  std::optional<runtime::PeerId> head;
  runtime::Event broken;
};

bool hopeless(const Error& error) {
  return error.code == Errc::unauthenticated || error.code == Errc::unsupported ||
         error.code == Errc::invalid_argument || error.code == Errc::not_found || error.code == Errc::conflict;
}

Error lease_over(const HeadLinkOptions& options) {
  return {Errc::deadline_exceeded,
          "no head for " + std::to_string(options.lease.count()) + " ms at " + options.head.text()};
}

/// Tries once: opens a link to the head, makes the worker if there is none yet, announces it.
net::awaitable<Result<void>> announce(runtime::ActorSystem& system, const HeadLinkOptions& options,
                                      std::shared_ptr<Hold> hold, const MakeWorker& make_worker,
                                      runtime::ActorRef<Worker>& worker) {
  const auto head = co_await system.connect(options.head);
  if (!head) co_return head.error();
  // The worker's actors refer to the process of their head, so no other can take its place.
  if (hold->head && *hold->head != *head) co_return Error{Errc::conflict, "the head was restarted"};
  hold->head = *head;
  const auto coordinator = system.find<Coordinator>(*head, "coordinator");
  if (!worker) {
    auto made = make_worker(coordinator);
    if (!made) co_return Error{Errc::invalid_argument, made.error().message()};
    worker = std::move(*made);
  }
  auto known = co_await coordinator.call<&Coordinator::worker_up>(options.worker_id, worker);
  if (!known && !hopeless(known.error())) system.disconnect(*head, "the head does not answer this worker");
  co_return known;
}

}  // namespace

net::awaitable<Error> hold_head_link(runtime::ActorSystem& system, HeadLinkOptions options, MakeWorker make_worker) {
  auto& clock = system.clock();
  const auto executor = co_await net::this_coro::executor;
  const auto hold = std::make_shared<Hold>();
  system.on_peer_lost(executor, [hold](const runtime::PeerInfo& lost, const Error&) {
    if (hold->head == lost.id) hold->broken.set();
  });
  runtime::ActorRef<Worker> worker;
  auto lease_end = clock.now() + options.lease;
  for (;;) {
    hold->broken = runtime::Event();
    const auto outcome =
        co_await (announce(system, options, hold, make_worker, worker) || clock.sleep_until(lease_end));
    if (outcome.index() == 1) {
      const bool over = std::get<1>(outcome);
      if (!over) co_return Error{Errc::cancelled, "the worker is stopping"};
      co_return lease_over(options);
    }
    const auto& announced = std::get<0>(outcome);
    if (announced) {
      const bool broken = co_await hold->broken.wait();
      if (!broken) co_return Error{Errc::cancelled, "the worker is stopping"};
      lease_end = clock.now() + options.lease;
      spdlog::warn("the link to the head broke");
    } else {
      if (hopeless(announced.error())) co_return announced.error();
      if (clock.now() >= lease_end) co_return lease_over(options);
      spdlog::warn("the head: {}; trying again", announced.error().message());
      if (!co_await clock.sleep_for(pause)) co_return Error{Errc::cancelled, "the worker is stopping"};
    }
  }
}

}  // namespace weir::protocol
