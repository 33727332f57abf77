#pragma once

#include <array>
#include <string>

#include "base/errc.hpp"
#include "collectives/collective.hpp"
#include "collectives/communicator.hpp"
#include "collectives/reduce.hpp"

namespace weir::collectives {

// What collectives do with the messages that arrive.

/// What goes on as far as a message has arrived: messages that pass it on, and one that must not overtake it.
struct Onward {
  std::array<Send*, 2> sends{};
  Receive* follower = nullptr;

  /// `digest`: of the piece that has arrived last, if it goes on as it is.
  void operator()(std::uint64_t bytes, const std::optional<PieceDigest>& digest = std::nullopt) const {
    for (Send* send : sends) {
      if (send != nullptr) send->release(bytes, digest);
    }
    if (follower != nullptr) follower->admit(bytes);
  }
};

inline Result<void> expect_length(std::uint64_t message_bytes, std::size_t due_bytes) {
  if (message_bytes == due_bytes) return {};
  return Error{Errc::malformed, "a message of " + std::to_string(message_bytes) + " bytes where " +
                                    std::to_string(due_bytes) + " are due"};
}

/// Combines the message with values that this rank has, each piece while it is still in the cache.
class Combiner final : public Receiver {
 public:
  Combiner(ReduceOp op, Element element, std::span<std::byte> values, const Onward& onward = {})
      : op_(op), element_(element), values_(values), onward_(onward) {}

  Result<void> begin(std::uint64_t message_bytes) override { return expect_length(message_bytes, values_.size()); }
  std::span<std::byte> place(std::uint64_t, std::size_t) override { return {}; }
  void arrived(std::uint64_t offset, BytesView piece) override {
    combine(op_, element_, piece, values_.subspan(offset, piece.size()));
  }
  void progressed(std::uint64_t bytes, const std::optional<PieceDigest>&) override { onward_(bytes); }
  bool computes() const override { return true; }

 private:
  const ReduceOp op_;
  const Element element_;
  const std::span<std::byte> values_;
  const Onward onward_;
};

/// Receives a message of a known length into its place.
class Filler final : public Receiver {
 public:
  Filler(std::span<std::byte> into, const Onward& onward = {}) : into_(into), onward_(onward) {}

  Result<void> begin(std::uint64_t message_bytes) override { return expect_length(message_bytes, into_.size()); }
  std::span<std::byte> place(std::uint64_t offset, std::size_t bytes) override { return into_.subspan(offset, bytes); }
  void progressed(std::uint64_t bytes, const std::optional<PieceDigest>& digest) override { onward_(bytes, digest); }

 private:
  const std::span<std::byte> into_;
  const Onward onward_;
};

/// Makes room for `count` payloads.
inline void make_room(const Communicator& group, Gathered& gathered, std::size_t count) {
  gathered.payloads.resize(count);
  if (!group.carries_data()) gathered.lengths.resize(count);
}

/// A payload that was gathered, to be sent on.
inline BytesView view_of(const Communicator& group, const Gathered& gathered, std::size_t number) {
  if (group.carries_data()) return gathered.payloads[number];
  return {group.reserved_addresses(), gathered.lengths[number]};
}

/// Receives a payload of any length up to the limit into its place among the others.
class Collector final : public Receiver {
 public:
  Collector(const Communicator& group, Gathered& gathered, std::size_t number)
      : group_(group), gathered_(gathered), number_(number) {}

  Result<void> begin(std::uint64_t message_bytes) override {
    if (message_bytes > gathered_.bytes_max) {
      return Error{Errc::malformed, "a payload of " + std::to_string(message_bytes) + " bytes where at most " +
                                        std::to_string(gathered_.bytes_max) + " can be"};
    }
    if (group_.carries_data()) {
      gathered_.payloads[number_].resize(message_bytes, boost::container::default_init);
    } else {
      gathered_.lengths[number_] = message_bytes;
    }
    return {};
  }
  std::span<std::byte> place(std::uint64_t offset, std::size_t bytes) override {
    return std::span(gathered_.payloads[number_]).subspan(offset, bytes);
  }

 private:
  const Communicator& group_;
  Gathered& gathered_;
  const std::size_t number_;
};

}  // namespace weir::collectives
