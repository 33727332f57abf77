// What the only worker of a group may send to its state server: questions, probes of its link and their bytes, in any
// order and of any length.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <thread>

#include "base/bytes.hpp"
#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/communicator.hpp"
#include "collectives/transports/in_process.hpp"
#include "training/state_server/state_server.hpp"

namespace {

namespace collectives = weir::collectives;

using weir::BytesView;
using weir::ensure;
using weir::Errc;
using weir::training::StateServer;
using weir::training::StepBudget;

constexpr std::uint32_t server = 1;
constexpr std::size_t messages_max = 16;

/// Takes any message, and forgets it.
class Forget final : public collectives::Receiver {
 public:
  weir::Result<void> begin(std::uint64_t) override { return {}; }
  std::span<std::byte> place(std::uint64_t, std::size_t) override { return {}; }
};

/// The messages of the input, each behind three bytes: the version and the part of its subject, and its length.
collectives::Task<> send_all(collectives::Communicator& group, BytesView input) {
  const auto take = [&input](std::size_t count) {
    const BytesView taken = input.first(std::min(count, input.size()));
    input = input.subspan(taken.size());
    return taken;
  };
  Forget forget;
  std::list<collectives::Receive> answers;  // two to a probe
  for (std::size_t n = 0; n < 2 * messages_max; ++n) answers.emplace_back(group, forget);
  for (std::size_t n = 0; n < messages_max && input.size() >= 3; ++n) {
    const BytesView head = take(3);
    const collectives::Subject about{.version = std::to_integer<std::uint64_t>(head[0]),
                                     .bucket = 0,
                                     .part = std::to_integer<std::uint32_t>(head[1])};
    collectives::Send sent(group, server, about, take(std::to_integer<std::size_t>(head[2])));
    if (auto done = co_await sent; !done) co_return done.error();
  }
  co_return weir::Result<void>();
}

/// Until the worker has left, or the group has ended.
weir::Result<void> serve(collectives::Fabric& fabric) {
  StepBudget steps({.workers = 1});
  double now = 0;
  StateServer state_server(fabric, steps, [&now] { return now += 0.01; });
  while (true) {
    const auto left = state_server.serve();
    if (!left) return left.error();
    if (*left) return {};
  }
}

}  // namespace

/// Whatever comes, the state server ends: because the worker has left, or for a reason that names it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const BytesView input = std::as_bytes(std::span(data, size));
  auto group = collectives::in_process_group(2, 2);
  std::optional<weir::Result<void>> served;
  {
    const std::jthread serving([&] { served = serve(*group[server]); });
    const std::uint32_t lane = StateServer::lane_of(*group[0]);
    (void)group[0]->thread().run([&] { return send_all(group[0]->lane(lane), input); });
    group[0].reset();  // the worker is lost
  }
  ensure(served.has_value(), "the state server has ended");
  if (*served) return 0;
  const auto& error = served->error();
  ensure(error.code == Errc::malformed || error.code == Errc::peer_lost, "another reason");
  ensure(error.context.find("rank 0") != std::string::npos || error.context.find("worker 0") != std::string::npos,
         "who it was");
  return 0;
}
