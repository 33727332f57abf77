#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <string>

#include "base/errc.hpp"
#include "base/segment_memory.hpp"
#include "protocol/training.hpp"
#include "runtime/clock.hpp"

namespace weir::protocol {

/// True if a call failed because it, or its answer, did not get through: it may be made again.
inline bool may_be_repeated(const Error& error) {
  return error.code == Errc::deadline_exceeded || error.code == Errc::peer_lost || error.code == Errc::mailbox_full ||
         error.code == Errc::exhausted;
}

/// What the slowest line that is good enough carries.
inline constexpr std::uint64_t slow_bytes_per_second = 16 << 10;

/// The time limit of a call that carries this many bytes: the default deadline, and the time they need on a slow line.
/// A link that breaks, or on which nothing moves, ends the call sooner.
inline std::chrono::seconds time_for(std::uint64_t bytes) {
  return runtime::default_deadline + std::chrono::seconds(bytes / slow_bytes_per_second);
}

/// Calls a method of the head's Coordinator with `argument` until it is answered, for messages that must not get lost:
/// each carries its number, so the head recognizes a repeat. While the link is broken, it waits for a new one:
/// hold_head_link() ends the process if none comes. Fails with: the error with which the head refuses the message
/// (conflict: the job is not ours any more; malformed; ...), cancelled.
template <auto Method, class Argument>
net::awaitable<Result<void>> until_acknowledged(runtime::ActorRef<Coordinator> coordinator, runtime::Clock& clock,
                                                Argument argument) {
  constexpr std::chrono::milliseconds pause{500};
  for (;;) {
    const Result<void> answer = co_await coordinator.call<Method>(argument);
    if (answer || !may_be_repeated(answer.error())) co_return answer;
    if (!co_await clock.sleep_for(pause)) co_return Error{Errc::cancelled, "the worker is stopping"};
  }
}

/// The same for a share of a checkpoint, which may be large: it goes piece by piece, and the time limit of each is
/// time_for() its size. The pieces are parts of the share's memory. While the link lives, a piece without an answer is
/// still on its way, so it is not sent again: beyond that time limit the call fails with deadline_exceeded.
inline net::awaitable<Result<void>> until_kept(runtime::ActorRef<Coordinator> coordinator, runtime::Clock& clock,
                                               CheckpointShare share,
                                               std::uint64_t piece_bytes = checkpoint_piece_bytes) {
  constexpr std::chrono::milliseconds pause{500};
  const Segment all = share.safetensors;
  CheckpointPiece next{.job_id = share.job_id,
                       .rank = share.rank,
                       .attempt = share.attempt,
                       .step = share.step,
                       .share_bytes = all.size(),
                       .offset = 0,
                       .bytes = {}};
  do {
    next.bytes = all.slice(next.offset, std::min<std::uint64_t>(piece_bytes, all.size() - next.offset));
    const auto patient = coordinator.within(time_for(next.bytes.size()));
    const Result<void> answer = co_await patient.call<&Coordinator::checkpoint>(next);
    if (answer) {
      next.offset += next.bytes.size();
    } else if (answer.error().code == Errc::deadline_exceeded || !may_be_repeated(answer.error())) {
      co_return answer;
    } else if (!co_await clock.sleep_for(pause)) {
      co_return Error{Errc::cancelled, "the worker is stopping"};
    }
  } while (next.offset < all.size());
  co_return Result<void>();
}

/// Asks for all that a rank goes on from, piece by piece; as until_acknowledged() while the link is broken. Fails with:
/// exhausted (no memory for it), malformed (it is shorter or longer than the assignment says), the errors of
/// Coordinator::resume(), cancelled.
inline net::awaitable<Result<Segment>> until_resumed(runtime::ActorRef<Coordinator> coordinator, runtime::Clock& clock,
                                                     const Assignment& assignment) {
  auto [all, memory] = uninitialized_segment(assignment.resume_bytes);
  if (memory.data() == nullptr) {
    co_return Error{Errc::exhausted,
                    "no memory for a checkpoint of " + std::to_string(assignment.resume_bytes) + " bytes"};
  }
  const auto patient = coordinator.within(time_for(checkpoint_piece_bytes));
  constexpr std::chrono::milliseconds pause{500};
  ResumeRequest next{.job_id = assignment.job_id, .rank = assignment.rank, .attempt = assignment.attempt};
  while (next.offset < memory.size()) {
    const Result<Segment> piece = co_await patient.call<&Coordinator::resume>(next);
    if (piece) {
      if (piece->empty() || piece->size() > memory.size() - next.offset) {
        co_return Error{Errc::malformed, "the checkpoint to go on from is not as long as the head has said"};
      }
      std::ranges::copy(piece->bytes(), memory.data() + next.offset);
      next.offset += piece->size();
    } else if (!may_be_repeated(piece.error())) {
      co_return piece.error();
    } else if (!co_await clock.sleep_for(pause)) {
      co_return Error{Errc::cancelled, "the worker is stopping"};
    }
  }
  co_return all;
}

}  // namespace weir::protocol
