#include "cuda/nccl_collective.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/receivers.hpp"

namespace weir::cuda {
namespace {

using namespace collectives;

NcclType type_of(Element element) {
  switch (element) {
    case Element::float32: return NcclType::float32;
    case Element::float16: return NcclType::float16;
    case Element::bfloat16: return NcclType::bfloat16;
  }
  return NcclType::float32;
}

/// Of those that NCCL has.
NcclReduction reduction_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::mean: return NcclReduction::mean;
    case ReduceOp::min: return NcclReduction::min;
    case ReduceOp::max: return NcclReduction::max;
    default: return NcclReduction::sum;
  }
}

/// A payload's place in the staging memory: NCCL is fastest with aligned ones.
constexpr std::size_t place_of(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

/// So that no sum of what ranks tell is too large for a number.
constexpr std::size_t payload_bytes_max = std::size_t{1} << 40;

using LengthBytes = std::array<std::byte, 8>;

LengthBytes encode_length(std::size_t length) {
  LengthBytes bytes;
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(std::uint64_t{length} >> 8 * i);
  return bytes;
}

/// Returns when all ranks have come here (the dissemination barrier: ceil(log2 P) empty messages of each rank).
Task<> meet(Communicator& group, Subject about) {
  for (std::uint32_t distance = 1; distance < group.size(); distance *= 2) {
    Filler nothing({});
    Send sent(group, (group.rank() + distance) % group.size(), about, BytesView());
    Receive arrival(group, (group.rank() + group.size() - distance) % group.size(), about, nothing);
    if (auto done = co_await arrival; !done) co_return done.error();
    if (auto done = co_await sent; !done) co_return done.error();
  }
  co_return Result<void>();
}

/// Calls `each` within a group of NCCL's, whose members go on side by side. Returns the first failure.
NcclStatus in_group(const NcclFunctions& nccl, FunctionRef<NcclStatus(std::uint32_t)> each, std::uint32_t count) {
  if (const NcclStatus begun = nccl.group_start(); begun != NcclStatus::success) return begun;
  NcclStatus failed = NcclStatus::success;
  for (std::uint32_t i = 0; i < count && failed == NcclStatus::success; ++i) {
    const NcclStatus answer = each(i);
    if (answer != NcclStatus::in_progress) failed = answer;
  }
  const NcclStatus ended = nccl.group_end();
  return failed == NcclStatus::success ? ended : failed;
}

}  // namespace

Operation NcclCollective::operation(std::string_view name, Subject about) const {
  return {.name = name, .over = "nccl", .options = 0, .bytes = 0, .about = about};
}

/// `option`: of the operation.
Operation NcclCollective::operation(std::string_view name, const Buffer& values, std::uint32_t option,
                                    Subject about) const {
  const auto element = static_cast<std::uint64_t>(values.element);
  return {
      .name = name, .over = "nccl", .options = element << 32 | option, .bytes = values.bytes.size(), .about = about};
}

Result<void> NcclCollective::expect_reachable(const Device& device) const {
  if (device.is_host() || device.gpu == gpu_) return {};
  return Error{Errc::unsupported, "the values are in the memory of GPU " + std::to_string(device.gpu) +
                                      ", and NCCL takes those of GPU " + std::to_string(gpu_)};
}

Result<void> NcclCollective::expect_reduction(const Buffer& values, ReduceOp op) const {
  if (op == ReduceOp::majority) {
    return Error{Errc::unsupported, "NCCL takes no majority of signs; choose another topology"};
  }
  return expect_reachable(values.device);
}

Task<> NcclCollective::all_reduce(Buffer values, ReduceOp op, Subject about) {
  const Operation next = operation("all_reduce", values, static_cast<std::uint32_t>(op), about);
  return nccl_->operate(next, reduce_all(values, op, about));
}

Task<> NcclCollective::reduce_scatter(Buffer values, ReduceOp op, Subject about) {
  const Operation next = operation("reduce_scatter", values, static_cast<std::uint32_t>(op), about);
  return nccl_->operate(next, reduce_chunks(values, op, about));
}

Task<> NcclCollective::all_gather(ConstBuffer own, Gathered& gathered, Subject about) {
  return nccl_->operate(operation("all_gather", about), gather(own, gathered, about));
}

Task<> NcclCollective::all_to_all(std::span<const ConstBuffer> outgoing, Gathered& incoming, Subject about) {
  return nccl_->operate(operation("all_to_all", about), exchange(outgoing, incoming, about));
}

Task<> NcclCollective::to_owners(std::span<const BytesView> outgoing, Gathered& incoming, Subject about) {
  return nccl_->operate(operation("to_owners", about), exchange_views(outgoing, incoming, about));
}

Task<> NcclCollective::from_owners(BytesView own, Gathered& gathered, Subject about) {
  return nccl_->operate(operation("from_owners", about), gather(own, gathered, about));
}

Task<> NcclCollective::swap(BytesView outgoing, std::uint32_t partner, Gathered& incoming, Subject about) {
  return nccl_->operate(operation("swap", about), exchange_with(partner, outgoing, incoming, about));
}

Task<> NcclCollective::broadcast(Buffer values, std::uint32_t root, Subject about) {
  return nccl_->operate(operation("broadcast", values, root, about), copy_from(values, root, about));
}

/// What a ring of the ranks carries: to the next one, and from the one before.
void NcclCollective::count_ring(std::uint64_t sent_bytes, std::uint64_t received_bytes) {
  const std::uint32_t ranks = control_.size();
  if (ranks == 1) return;
  control_.count((control_.rank() + 1) % ranks, {.sent_bytes = sent_bytes, .received_bytes = 0});
  control_.count((control_.rank() + ranks - 1) % ranks, {.sent_bytes = 0, .received_bytes = received_bytes});
}

/// What `call` does to the values, in the order of their stream.
Task<> NcclCollective::change(Buffer values, Change call, Subject about) {
  if (auto met = co_await meet(control_, about); !met) co_return met.error();
  if (values.bytes.empty()) co_return Result<void>();
  const bool on_host = values.device.is_host();
  if (on_host) {
    if (auto room = co_await nccl_->reserve(values.bytes.size()); !room) co_return room.error();
  }
  if (auto begun = nccl_->begin_after(values.device); !begun) co_return begun.error();
  Buffer there = values;
  if (on_host) {
    there.bytes = {nccl_->staging(), values.bytes.size()};
    if (auto up = put(values, 0); !up) co_return up.error();
  }
  const auto on_gpu = [&](const NcclFunctions& nccl, ncclComm* communicator, StreamHandle stream) {
    return call(there, nccl, communicator, stream);
  };
  if (auto taken = co_await nccl_->run(on_gpu); !taken) co_return taken.error();
  if (on_host) {
    if (auto down = nccl_->copy(there.bytes, nccl_->pinned()); !down) co_return down.error();
  }
  if (auto marked = nccl_->mark_end(); !marked) co_return marked.error();
  if (auto held = nccl_->hold_back(values.device); !held) co_return held.error();
  if (auto ended = co_await nccl_->reach_end(); !ended) co_return ended.error();
  if (on_host) std::memcpy(values.bytes.data(), nccl_->pinned(), values.bytes.size());
  co_return Result<void>();
}

Task<> NcclCollective::reduce_all(Buffer values, ReduceOp op, Subject about) {
  if (auto possible = expect_reduction(values, op); !possible) co_return possible.error();
  const auto call = [&](const Buffer& there, const NcclFunctions& nccl, ncclComm* communicator, StreamHandle stream) {
    return nccl.all_reduce(there.bytes.data(), there.bytes.data(), there.count(), type_of(there.element),
                           reduction_of(op), communicator, stream);
  };
  if (auto changed = co_await change(values, call, about); !changed) co_return changed.error();
  const std::uint64_t bytes = 2 * (control_.size() - 1) * values.bytes.size() / control_.size();
  count_ring(bytes, bytes);
  co_return Result<void>();
}

Task<> NcclCollective::reduce_chunks(Buffer values, ReduceOp op, Subject about) {
  if (auto possible = expect_reduction(values, op); !possible) co_return possible.error();
  const std::uint32_t ranks = control_.size();
  const NcclType type = type_of(values.element);
  const auto call = [&](const Buffer& there, const NcclFunctions& nccl, ncclComm* communicator, StreamHandle stream) {
    if (there.count() % ranks == 0) {
      const Buffer own = chunk_of(there, ranks, control_.rank());
      return nccl.reduce_scatter(there.bytes.data(), own.bytes.data(), own.count(), type, reduction_of(op),
                                 communicator, stream);
    }
    const auto to_its_rank = [&](std::uint32_t rank) {
      const Buffer chunk = chunk_of(there, ranks, rank);
      if (chunk.bytes.empty()) return NcclStatus::success;
      return nccl.reduce(chunk.bytes.data(), chunk.bytes.data(), chunk.count(), type, reduction_of(op),
                         static_cast<int>(rank), communicator, stream);
    };
    return in_group(nccl, to_its_rank, ranks);
  };
  if (auto changed = co_await change(values, call, about); !changed) co_return changed.error();
  const std::uint64_t bytes = (ranks - 1) * values.bytes.size() / ranks;
  count_ring(bytes, bytes);
  co_return Result<void>();
}

Task<> NcclCollective::copy_from(Buffer values, std::uint32_t root, Subject about) {
  if (auto reachable = expect_reachable(values.device); !reachable) co_return reachable.error();
  const auto call = [&](const Buffer& there, const NcclFunctions& nccl, ncclComm* communicator, StreamHandle stream) {
    return nccl.broadcast(there.bytes.data(), there.bytes.data(), there.bytes.size(), NcclType::uint8,
                          static_cast<int>(root), communicator, stream);
  };
  if (auto changed = co_await change(values, call, about); !changed) co_return changed.error();
  const bool last = (control_.rank() + 1) % control_.size() == root;
  count_ring(last ? 0 : values.bytes.size(), control_.rank() == root ? 0 : values.bytes.size());
  co_return Result<void>();
}

/// What the other ranks have told, none of them longer than the limit.
Result<std::vector<std::size_t>> NcclCollective::lengths_of(const Gathered& told, std::size_t bytes_max) const {
  const std::size_t limit = std::min(bytes_max, payload_bytes_max);
  std::vector<std::size_t> lengths;
  for (std::uint32_t rank = 0; rank < control_.size(); ++rank) {
    const Bytes& bytes = told.payloads[rank];
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) length |= std::to_integer<std::uint64_t>(bytes[i]) << 8 * i;
    if (bytes.size() != sizeof(LengthBytes) || length > limit) {
      return Error{Errc::malformed, "rank " + std::to_string(rank) + ": a payload of " + std::to_string(length) +
                                        " bytes where at most " + std::to_string(limit) + " can be"};
    }
    lengths.push_back(length);
  }
  return lengths;
}

/// Puts a payload into the staging memory.
Result<void> NcclCollective::put(const ConstBuffer& from, std::size_t at) {
  if (from.bytes.empty()) return {};
  if (!from.device.is_host()) {
    if (auto begun = nccl_->begin_after(from.device); !begun) return begun;
    return nccl_->copy(from.bytes, nccl_->staging() + at);
  }
  std::memcpy(nccl_->pinned() + at, from.bytes.data(), from.bytes.size());
  return nccl_->copy({nccl_->pinned() + at, from.bytes.size()}, nccl_->staging() + at);
}

Task<> NcclCollective::gather(ConstBuffer own, Gathered& gathered, Subject about) {
  const std::uint32_t ranks = control_.size();
  if (own.bytes.size() > gathered.bytes_max) {
    co_return Error{Errc::invalid_argument, "a payload of " + std::to_string(own.bytes.size()) +
                                                " bytes exceeds the limit of " + std::to_string(gathered.bytes_max)};
  }
  if (auto reachable = expect_reachable(own.device); !reachable) co_return reachable.error();
  gathered.payloads.resize(ranks);
  const LengthBytes own_length = encode_length(own.bytes.size());
  Gathered told{.payloads = {}, .bytes_max = sizeof own_length};
  const ConstBuffer message(own_length);
  if (auto done = co_await mesh_.all_gather(message, told, about); !done) co_return done.error();
  const auto lengths = lengths_of(told, gathered.bytes_max);
  if (!lengths) co_return lengths.error();
  const std::size_t place = place_of(std::ranges::max(*lengths));
  if (place > 0) {
    if (auto room = co_await nccl_->reserve(place * ranks); !room) co_return room.error();
    if (auto begun = nccl_->begin_after(Device()); !begun) co_return begun.error();
    if (auto there = put(own, place * control_.rank()); !there) co_return there.error();
    const auto call = [&](const NcclFunctions& nccl, ncclComm* communicator, StreamHandle stream) {
      return nccl.all_gather(nccl_->staging() + place * control_.rank(), nccl_->staging(), place, NcclType::uint8,
                             communicator, stream);
    };
    if (auto taken = co_await nccl_->run(call); !taken) co_return taken.error();
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const BytesView arrived(nccl_->staging() + place * rank, (*lengths)[rank]);
      if (auto back = nccl_->copy(arrived, nccl_->pinned() + place * rank); !back) co_return back.error();
    }
    if (auto marked = nccl_->mark_end(); !marked) co_return marked.error();
    if (auto held = nccl_->hold_back(own.device); !held) co_return held.error();
    if (auto ended = co_await nccl_->reach_end(); !ended) co_return ended.error();
    count_ring((ranks - 1) * place, (ranks - 1) * place);
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    gathered.payloads[rank].clear();
    if (place > 0) append(gathered.payloads[rank], {nccl_->pinned() + place * rank, (*lengths)[rank]});
  }
  co_return Result<void>();
}

Task<> NcclCollective::exchange_views(std::span<const BytesView> outgoing, Gathered& incoming, Subject about) {
  const std::vector<ConstBuffer> buffers(outgoing.begin(), outgoing.end());
  co_return co_await exchange(buffers, incoming, about);
}

Task<> NcclCollective::exchange_with(std::uint32_t partner, BytesView outgoing, Gathered& incoming, Subject about) {
  std::vector<ConstBuffer> all(control_.size(), BytesView());
  all[partner] = outgoing;
  Gathered arrived{.payloads = {}, .bytes_max = incoming.bytes_max};
  if (auto done = co_await exchange(all, arrived, about); !done) co_return done.error();
  incoming.payloads.resize(control_.size());
  std::swap(incoming.payloads[partner], arrived.payloads[partner]);
  co_return Result<void>();
}

Task<> NcclCollective::exchange(std::span<const ConstBuffer> outgoing, Gathered& incoming, Subject about) {
  const std::uint32_t ranks = control_.size();
  const std::uint32_t self = control_.rank();
  ensure(outgoing.size() == ranks, "a payload for each rank");
  if (outgoing[self].bytes.size() > incoming.bytes_max) {
    co_return Error{Errc::invalid_argument, "a payload of " + std::to_string(outgoing[self].bytes.size()) +
                                                " bytes exceeds the limit of " + std::to_string(incoming.bytes_max)};
  }
  std::vector<LengthBytes> own_lengths;
  for (const ConstBuffer& payload : outgoing) {
    if (auto reachable = expect_reachable(payload.device); !reachable) co_return reachable.error();
    own_lengths.push_back(encode_length(payload.bytes.size()));
  }
  incoming.payloads.resize(ranks);
  const std::vector<ConstBuffer> messages(own_lengths.begin(), own_lengths.end());
  Gathered told{.payloads = {}, .bytes_max = sizeof(LengthBytes)};
  if (auto done = co_await mesh_.all_to_all(messages, told, about); !done) co_return done.error();
  const auto lengths = lengths_of(told, incoming.bytes_max);
  if (!lengths) co_return lengths.error();

  // What arrives comes first in the staging memory, then what is sent; the own payload is where it would arrive.
  std::size_t total = 0;
  std::vector<std::size_t> arrives_at;
  std::vector<std::size_t> sent_at;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    arrives_at.push_back(total);
    total += place_of((*lengths)[rank]);
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    sent_at.push_back(rank == self ? arrives_at[self] : total);
    if (rank != self) total += place_of(outgoing[rank].bytes.size());
  }
  if (total > 0) {
    if (auto room = co_await nccl_->reserve(total); !room) co_return room.error();
    if (auto begun = nccl_->begin_after(Device()); !begun) co_return begun.error();
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (auto there = put(outgoing[rank], sent_at[rank]); !there) co_return there.error();
    }
    const auto call = [&](const NcclFunctions& nccl, ncclComm* communicator, StreamHandle stream) {
      const auto with = [&](std::uint32_t rank) {
        NcclStatus answer = NcclStatus::success;
        if (rank == self) return answer;
        const std::size_t out = outgoing[rank].bytes.size();
        const std::size_t in = (*lengths)[rank];
        const auto peer = static_cast<int>(rank);
        std::byte* const staging = nccl_->staging();
        if (out > 0) answer = nccl.send(staging + sent_at[rank], out, NcclType::uint8, peer, communicator, stream);
        const bool fine = answer == NcclStatus::success || answer == NcclStatus::in_progress;
        if (in == 0 || !fine) return answer;
        return nccl.receive(staging + arrives_at[rank], in, NcclType::uint8, peer, communicator, stream);
      };
      return in_group(nccl, with, ranks);
    };
    if (auto taken = co_await nccl_->run(call); !taken) co_return taken.error();
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const BytesView arrived(nccl_->staging() + arrives_at[rank], (*lengths)[rank]);
      if (auto back = nccl_->copy(arrived, nccl_->pinned() + arrives_at[rank]); !back) co_return back.error();
    }
    if (auto marked = nccl_->mark_end(); !marked) co_return marked.error();
    for (const ConstBuffer& payload : outgoing) {
      if (auto held = nccl_->hold_back(payload.device); !held) co_return held.error();
    }
    if (auto ended = co_await nccl_->reach_end(); !ended) co_return ended.error();
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (rank == self) continue;
      control_.count(rank, {.sent_bytes = outgoing[rank].bytes.size(), .received_bytes = (*lengths)[rank]});
    }
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    incoming.payloads[rank].clear();
    if (total > 0) append(incoming.payloads[rank], {nccl_->pinned() + arrives_at[rank], (*lengths)[rank]});
  }
  co_return Result<void>();
}

}  // namespace weir::cuda
