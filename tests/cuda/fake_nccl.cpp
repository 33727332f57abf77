// A libnccl.so.2 for tests: the ranks of its communicators are threads of one process, and their memory is that of the
// emulated device (tests/cuda/emulator), into whose streams it puts its work. It does what NCCL promises and no more:
// calls of communicators that do not block are in progress until somebody has asked for them, their work comes into the
// stream only then, a rank's work ends when all ranks that it needs have begun theirs, and ranks that do not agree, or
// one that is gone, leave the others waiting until they abort. A program that opens it needs ENABLE_EXPORTS.

#include "tests/cuda/fake_nccl.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "base/half.hpp"
#include "cuda/nccl_library.hpp"
#include "tests/cuda/emulator/emulator.hpp"

namespace {

using weir::cuda::NcclConfig;
using weir::cuda::NcclId;
using weir::cuda::NcclReduction;
using weir::cuda::NcclStatus;
using weir::cuda::NcclType;
using weir::cuda::StreamHandle;

weir::cuda::testing::FakeNccl told;

constexpr auto invalid_argument = static_cast<NcclStatus>(4);
constexpr auto invalid_usage = static_cast<NcclStatus>(5);

enum class Kind { all_reduce, reduce, reduce_scatter, all_gather, broadcast, send, receive };

struct Call {
  Kind kind;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  NcclType type = NcclType::uint8;
  NcclReduction reduction = NcclReduction::sum;
  int rank = 0;  ///< the root, or the other one
};

/// What all ranks do together.
struct Round {
  std::vector<std::optional<Call>> of_ranks;
  bool done = false;
};

struct Message {
  Call call;
  std::shared_ptr<bool> done;
};

/// The ranks of one id.
struct Group {
  int ranks = 0;
  int connected = 0;
  int finalized = 0;
  bool broken = false;
  std::map<std::size_t, Round> rounds;
  std::map<std::pair<int, int>, std::pair<std::deque<Message>, std::deque<Message>>> messages;  ///< sent, expected
};

struct State {
  std::shared_ptr<Group> group;
  int rank = 0;
  bool connected = false;
  bool aborted = false;
  bool revoking = false;
  bool finalizing = false;
  std::size_t rounds = 0;
  std::vector<Call> calls;  ///< that are in progress
  StreamHandle stream = nullptr;
  int asked = 0;  ///< how often somebody has asked for them
};

std::mutex mutex;
std::map<std::string, std::weak_ptr<Group>> groups;

struct Grouped {
  int depth = 0;
  ncclComm* communicator = nullptr;
  std::vector<Call> calls;
  StreamHandle stream = nullptr;
};
thread_local Grouped grouped;

std::size_t bytes_of(NcclType type) { return type == NcclType::uint8 ? 1 : type == NcclType::float32 ? 4 : 2; }

float get(const void* from, NcclType type, std::size_t i) {
  if (type == NcclType::float32) return static_cast<const float*>(from)[i];
  if (type == NcclType::float16) return weir::to_float(static_cast<const weir::Half*>(from)[i]);
  return weir::to_float(static_cast<const weir::BFloat16*>(from)[i]);
}
void put(float value, void* to, NcclType type, std::size_t i) {
  if (type == NcclType::float32) static_cast<float*>(to)[i] = value;
  if (type == NcclType::float16) static_cast<weir::Half*>(to)[i] = weir::to_half(value);
  if (type == NcclType::bfloat16) static_cast<weir::BFloat16*>(to)[i] = weir::to_bfloat16(value);
}

/// What all ranks' values come to, `count` of them.
std::vector<std::byte> reduce(const Round& round, std::size_t count) {
  const Call& first = *round.of_ranks.front();
  const auto ranks = static_cast<float>(round.of_ranks.size());
  std::vector<std::byte> result(count * bytes_of(first.type));
  for (std::size_t i = 0; i < count; ++i) {
    float value = get(first.from, first.type, i);
    for (std::size_t rank = 1; rank < round.of_ranks.size(); ++rank) {
      const float other = get(round.of_ranks[rank]->from, first.type, i);
      if (first.reduction == NcclReduction::max) value = std::max(value, other);
      if (first.reduction == NcclReduction::min) value = std::min(value, other);
      if (first.reduction == NcclReduction::sum || first.reduction == NcclReduction::mean) value += other;
    }
    put(first.reduction == NcclReduction::mean ? value / ranks : value, result.data(), first.type, i);
  }
  return result;
}

void carry_out(Round& round) {
  const Call& first = *round.of_ranks.front();
  const std::size_t ranks = round.of_ranks.size();
  const std::size_t bytes = first.count * bytes_of(first.type);
  std::vector<std::byte> result;
  switch (first.kind) {
    case Kind::all_reduce:
    case Kind::reduce: result = reduce(round, first.count); break;
    case Kind::reduce_scatter: result = reduce(round, ranks * first.count); break;
    case Kind::broadcast: {
      const auto* from = static_cast<const std::byte*>(round.of_ranks[static_cast<std::size_t>(first.rank)]->from);
      result.assign(from, from + bytes);
      break;
    }
    default:
      for (const auto& call : round.of_ranks) {
        const auto* from = static_cast<const std::byte*>(call->from);
        result.insert(result.end(), from, from + bytes);
      }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    void* const to = round.of_ranks[rank]->to;
    if (first.kind == Kind::reduce && static_cast<int>(rank) != first.rank) continue;
    if (first.kind == Kind::reduce_scatter) {
      std::memcpy(to, result.data() + rank * bytes, bytes);
    } else {
      std::memcpy(to, result.data(), result.size());
    }
  }
  round.done = true;
}

bool agree(const Call& a, const Call& b) {
  const bool same_root = (a.kind != Kind::reduce && a.kind != Kind::broadcast) || a.rank == b.rank;
  return a.kind == b.kind && a.count == b.count && a.type == b.type && a.reduction == b.reduction && same_root;
}

/// Work in a stream.
struct Work {
  bool attempt();
  void begin();
  void begin(const Call& call);
  void meet(const Call& call);

  std::shared_ptr<State> state;
  std::vector<Call> calls;
  bool begun = false;
  std::vector<std::size_t> rounds;
  std::vector<std::shared_ptr<bool>> messages;
};

bool Work::attempt() {
  const std::lock_guard lock(mutex);
  if (state->aborted) return true;
  if (state->rank == told.hanging_rank || state->group->broken) return false;
  if (!begun) {
    begun = true;
    for (const Call& call : calls) begin(call);
  }
  Group& group = *state->group;
  const auto round_done = [&](std::size_t round) { return group.rounds[round].done; };
  return std::all_of(rounds.begin(), rounds.end(), round_done) &&
         std::all_of(messages.begin(), messages.end(), [](const auto& done) { return *done; });
}

void Work::begin(const Call& call) {
  if (call.kind == Kind::send || call.kind == Kind::receive) return meet(call);
  Group& group = *state->group;
  const std::size_t number = state->rounds++;
  rounds.push_back(number);
  Round& round = group.rounds[number];
  round.of_ranks.resize(static_cast<std::size_t>(group.ranks));
  round.of_ranks[static_cast<std::size_t>(state->rank)] = call;
  for (const auto& other : round.of_ranks) {
    if (!other) return;
    if (!agree(call, *other)) group.broken = true;
  }
  if (!group.broken) carry_out(round);
}

void Work::meet(const Call& call) {
  Group& group = *state->group;
  const bool sends = call.kind == Kind::send;
  auto& [sent, expected] =
      group.messages[sends ? std::pair(state->rank, call.rank) : std::pair(call.rank, state->rank)];
  const auto done = std::make_shared<bool>(false);
  messages.push_back(done);
  (sends ? sent : expected).push_back({call, done});
  if (sent.empty() || expected.empty()) return;
  if (sent.front().call.count != expected.front().call.count) {
    group.broken = true;
    return;
  }
  std::memcpy(expected.front().call.to, sent.front().call.from, call.count * bytes_of(call.type));
  *sent.front().done = true;
  *expected.front().done = true;
  sent.pop_front();
  expected.pop_front();
}

}  // namespace

struct ncclComm {
  std::shared_ptr<State> state;
};

namespace {

/// A call of `communicator`, or within a group.
NcclStatus take(const Call& call, ncclComm* communicator, StreamHandle stream) {
  if (grouped.depth > 0) {
    grouped.communicator = communicator;
    grouped.stream = stream;
    grouped.calls.push_back(call);
    return NcclStatus::success;
  }
  const std::lock_guard lock(mutex);
  State& state = *communicator->state;
  if (!state.connected || state.aborted || !state.calls.empty()) return invalid_usage;
  state.calls = {call};
  state.stream = stream;
  state.asked = 0;
  return NcclStatus::in_progress;
}

NcclStatus end(ncclComm* communicator) {
  const std::lock_guard lock(mutex);
  communicator->state->aborted = true;
  communicator->state->group->broken = true;
  return NcclStatus::success;
}

}  // namespace

extern "C" {

weir::cuda::testing::FakeNccl* fake_nccl() { return &told; }

NcclStatus ncclGetVersion(int* version) {
  *version = FAKE_NCCL_VERSION;
  return NcclStatus::success;
}
NcclStatus ncclGetUniqueId(NcclId* id) {
  static std::random_device random;
  for (char& c : id->bytes) c = static_cast<char>(random());
  return NcclStatus::success;
}
NcclStatus ncclCommInitRankConfig(ncclComm** communicator, int ranks, NcclId id, int rank, NcclConfig* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0 || rank < 0 || rank >= ranks) return invalid_argument;
  const std::lock_guard lock(mutex);
  auto& known = groups[std::string(id.bytes.data(), id.bytes.size())];
  auto group = known.lock();
  if (!group) known = group = std::make_shared<Group>();
  group->ranks = ranks;
  if (rank != told.absent_rank) ++group->connected;
  *communicator = new ncclComm{std::make_shared<State>()};
  (*communicator)->state->group = group;
  (*communicator)->state->rank = rank;
  ++told.communicators;
  return NcclStatus::in_progress;
}
NcclStatus ncclCommGetAsyncError(ncclComm* communicator, NcclStatus* status) {
  auto work = std::make_shared<Work>();
  StreamHandle stream = nullptr;
  {
    const std::lock_guard lock(mutex);
    State& state = *communicator->state;
    const bool failing = state.connected && state.rank == told.failing_rank;
    state.connected = state.connected || state.group->connected == state.group->ranks;
    const bool finalized = !state.finalizing || state.group->finalized == state.group->ranks;
    const bool settled = state.connected && finalized && (state.calls.empty() || ++state.asked > 2);
    const bool stuck = state.revoking && told.abort_hangs;
    *status = settled && !stuck ? NcclStatus::success : NcclStatus::in_progress;
    if (failing && !state.aborted) *status = static_cast<NcclStatus>(told.failure.load());
    if (*status != NcclStatus::success || state.calls.empty()) return NcclStatus::success;
    *work = {.state = communicator->state, .calls = std::move(state.calls), .rounds = {}, .messages = {}};
    state.calls.clear();
    stream = state.stream;
  }
  weir::emulator::enqueue(stream, [work] { return work->attempt(); });
  ++told.operations;
  return NcclStatus::success;
}
NcclStatus ncclCommFinalize(ncclComm* communicator) {
  const std::lock_guard lock(mutex);
  communicator->state->finalizing = true;
  ++communicator->state->group->finalized;
  return NcclStatus::in_progress;
}
NcclStatus ncclCommDestroy(ncclComm* communicator) {
  ++told.destroyed;
  --told.communicators;
  delete communicator;
  return NcclStatus::success;
}
NcclStatus ncclCommAbort(ncclComm* communicator) {
  while (told.abort_hangs) std::this_thread::yield();
  end(communicator);
  ++told.aborted;
  --told.communicators;
  delete communicator;
  return NcclStatus::success;
}
#if FAKE_NCCL_VERSION >= 22800
NcclStatus ncclCommRevoke(ncclComm* communicator, int) {
  if (told.abort_hangs) {
    const std::lock_guard lock(mutex);
    communicator->state->revoking = true;
    return NcclStatus::in_progress;
  }
  ++told.revoked;
  return end(communicator);
}
#endif
const char* ncclGetErrorString(NcclStatus status) {
  return status == NcclStatus::remote_error ? "remote process exited or there was a network error" : "an error";
}
const char* ncclGetLastError(ncclComm*) { return ""; }

NcclStatus ncclGroupStart() {
  ++grouped.depth;
  return NcclStatus::success;
}
NcclStatus ncclGroupEnd() {
  if (--grouped.depth > 0 || grouped.calls.empty()) return NcclStatus::success;
  const Grouped calls = std::exchange(grouped, {});
  const std::lock_guard lock(mutex);
  State& state = *calls.communicator->state;
  if (!state.connected || state.aborted || !state.calls.empty()) return invalid_usage;
  state.calls = calls.calls;
  state.stream = calls.stream;
  state.asked = 0;
  return NcclStatus::in_progress;
}
NcclStatus ncclAllReduce(const void* from, void* to, std::size_t count, NcclType type, NcclReduction reduction,
                         ncclComm* communicator, StreamHandle stream) {
  return take({Kind::all_reduce, from, to, count, type, reduction}, communicator, stream);
}
NcclStatus ncclReduce(const void* from, void* to, std::size_t count, NcclType type, NcclReduction reduction, int root,
                      ncclComm* communicator, StreamHandle stream) {
  return take({Kind::reduce, from, to, count, type, reduction, root}, communicator, stream);
}
NcclStatus ncclReduceScatter(const void* from, void* to, std::size_t count, NcclType type, NcclReduction reduction,
                             ncclComm* communicator, StreamHandle stream) {
  return take({Kind::reduce_scatter, from, to, count, type, reduction}, communicator, stream);
}
NcclStatus ncclAllGather(const void* from, void* to, std::size_t count, NcclType type, ncclComm* communicator,
                         StreamHandle stream) {
  return take({Kind::all_gather, from, to, count, type}, communicator, stream);
}
NcclStatus ncclBroadcast(const void* from, void* to, std::size_t count, NcclType type, int root, ncclComm* communicator,
                         StreamHandle stream) {
  return take({Kind::broadcast, from, to, count, type, NcclReduction::sum, root}, communicator, stream);
}
NcclStatus ncclSend(const void* from, std::size_t count, NcclType type, int to, ncclComm* communicator,
                    StreamHandle stream) {
  return take({Kind::send, from, nullptr, count, type, NcclReduction::sum, to}, communicator, stream);
}
NcclStatus ncclRecv(void* to, std::size_t count, NcclType type, int from, ncclComm* communicator, StreamHandle stream) {
  return take({Kind::receive, nullptr, to, count, type, NcclReduction::sum, from}, communicator, stream);
}

}  // extern "C"
