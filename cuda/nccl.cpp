#include "cuda/nccl.hpp"

#include <array>
#include <utility>

#include "base/errc.hpp"
#include "collectives/topologies/catalog.hpp"
#include "collectives/transports/epoll_loop.hpp"
#include "cuda/aside.hpp"
#include "cuda/nccl_collective.hpp"
#include "cuda/nccl_communicator.hpp"
#include "cuda/nccl_library.hpp"
#include "cuda/nccl_rendezvous.hpp"

namespace weir::cuda {
namespace {

using collectives::Communicator;
using collectives::EpollLoop;
using collectives::Subject;
using collectives::Task;

/// What a rank needs to take part.
struct Prepared {
  std::shared_ptr<NcclResources> resources;
  NcclId id;  ///< of rank 0
};

Result<Prepared> prepare(const NcclOptions& options, bool makes_id) {
  auto library = NcclLibrary::open(options.library);
  if (!library) return library.error();
  auto resources = NcclResources::make(*library, options.gpu);
  if (!resources) return resources.error();
  Prepared prepared{std::move(*resources), {}};
  if (!makes_id) return prepared;
  const NcclStatus made = (*library)->call().get_unique_id(&prepared.id);
  auto checked = (*library)->check(made, nullptr, "NCCL finds no network to connect over");
  if (!checked) return checked.error();
  return prepared;
}

/// prepare() on a thread that may wait for the disk and the driver.
Task<Prepared> prepare_aside(Communicator& control, EpollLoop& loop, NcclOptions options) {
  const auto prepared = std::make_shared<Result<Prepared>>(Prepared());
  const bool makes_id = control.rank() == 0;
  const Aside preparing([=] { *prepared = prepare(options, makes_id); });
  while (!preparing.ended()) {
    if (const Error* failed = control.failure()) co_return *failed;
    EpollLoop::Timer next(loop, std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
    if (auto waited = co_await next; !waited) co_return waited.error();
  }
  co_return *prepared;
}

Result<int> version_of(const Result<Prepared>& prepared) {
  if (!prepared) return prepared.error();
  return prepared->resources->library->version();
}

}  // namespace

Task<std::unique_ptr<Nccl>> join_nccl(Communicator& control, NcclOptions options) {
  Subject about;
  auto* const loop = dynamic_cast<EpollLoop*>(&control.loop());
  Result<Prepared> prepared = Error(Errc::unsupported, "a simulated network has no GPUs");
  if (loop != nullptr) prepared = co_await prepare_aside(control, *loop, options);
  if (const Error* failed = control.failure()) co_return *failed;
  auto states = co_await exchange_nccl_states(control, own_nccl_state(version_of(prepared)), about);
  if (!states) co_return states.error();
  if (auto one = expect_one_nccl(*states); !one) co_return one.error();

  NcclId id = prepared->id;
  about.part = 1;
  const auto mesh = collectives::find_topology("ring")->make(control);
  const collectives::Buffer id_buffer{.bytes = std::as_writable_bytes(std::span(id.bytes))};
  if (auto told = co_await mesh->broadcast(id_buffer, 0, about); !told) co_return told.error();

  auto nccl = std::make_unique<NcclCommunicator>(control, *loop, prepared->resources, options);
  prepared = Error();  // what it holds is the communicator's from here on
  const auto connected = co_await nccl->connect(id);
  if (const Error* failed = control.failure()) co_return *failed;
  // All or none.
  Result<int> outcome = (*states)[control.rank()].version;
  if (!connected) outcome = connected.error();
  about.part = 2;
  states = co_await exchange_nccl_states(control, own_nccl_state(outcome), about);
  if (!states) co_return states.error();
  if (!connected) co_return connected.error();
  if (auto all = expect_one_nccl(*states); !all) co_return all.error();
  co_return std::make_unique<NcclCollective>(control, std::move(nccl), options.gpu);
}

}  // namespace weir::cuda
