#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/buffer.hpp"
#include "collectives/loop.hpp"
#include "collectives/operation.hpp"
#include "collectives/subject.hpp"
#include "collectives/task.hpp"

namespace weir::collectives {

/// Bytes on the way to and from other ranks: payload, frame headers and goodbyes, but neither the opening handshake nor
/// what ranks tell each other while nothing arrives. Of what something else carries, only the payload
/// (Communicator::count).
struct Traffic {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;

  Traffic& operator+=(const Traffic& other) {
    sent_bytes += other.sent_bytes;
    received_bytes += other.received_bytes;
    return *this;
  }
};

/// A count of bytes that other threads may read meanwhile.
struct TrafficCounter {
  std::atomic<std::uint64_t> sent_bytes = 0;
  std::atomic<std::uint64_t> received_bytes = 0;

  Traffic now() const { return {sent_bytes.load(), received_bytes.load()}; }
};

/// What the checksum of a frame is made of: XXH3-64 of the piece that it carries.
enum class PieceDigest : std::uint64_t {};

/// Takes one message while it arrives, piece by piece, on the loop's thread: what it does with a piece overlaps with
/// the transfer of the next ones.
class Receiver {
 public:
  virtual ~Receiver() = default;

  /// Announces a message of this many bytes. The number comes from the peer: check it before allocating memory.
  virtual Result<void> begin(std::uint64_t message_bytes) = 0;

  /// Memory for the piece that starts at `offset`. Empty: the piece is only looked at, in the transport's memory.
  virtual std::span<std::byte> place(std::uint64_t offset, std::size_t bytes) = 0;

  /// Called when the piece has arrived and its checksum is right: in the memory that `place` returned or, where that
  /// was empty, in memory aligned for every element type that is valid during this call.
  virtual void arrived(std::uint64_t /*offset*/, BytesView /*piece*/) {}

  /// Called after each piece: the first `bytes` bytes of the message have arrived. `digest`: that of the piece as it
  /// arrived, if the transport knows it; a message that passes the piece on need not read it again for its checksum.
  virtual void progressed(std::uint64_t /*bytes*/, const std::optional<PieceDigest>& /*digest*/) {}

  /// Whether `arrived` computes with the piece, which a simulated network takes time for.
  virtual bool computes() const { return false; }
};

class Communicator;

/// A message in the host's memory on its way to rank `to`, sent as soon as those before it to the same rank have been.
/// `co_await` returns when all of it has been handed to the transport: until then the bytes must stay as they are. It
/// fails as the communicator does.
class Send final : public Waiting {
 public:
  /// `ready_bytes`: how many of the first bytes are there already; release() tells of more. A message that is passed on
  /// while it arrives need not wait for its end.
  Send(Communicator& group, std::uint32_t to, const Subject& subject, const ConstBuffer& message,
       std::size_t ready_bytes);
  Send(Communicator& group, std::uint32_t to, const Subject& subject, const ConstBuffer& message)
      : Send(group, to, subject, message, message.bytes.size()) {}
  ~Send();

  /// The first `ready_bytes` bytes may be sent. Only ever more. `digest`: of the last piece of these, if it is known.
  void release(std::size_t ready_bytes, const std::optional<PieceDigest>& digest = std::nullopt);

  /// The digest of the piece that begins at `offset`, if it is still known.
  std::optional<PieceDigest> digest_at(std::size_t offset) const;

  const Subject subject;
  const BytesView message;
  const std::optional<Element> element;  ///< of numbers, which a slow line may carry in fewer bytes (packing.hpp)

  // For the communicator:
  std::uint32_t to;
  std::size_t ready_bytes;
  std::size_t sent_bytes = 0;  ///< handed over so far
  bool begun = false;
  OperationTag operation;

 private:
  friend class SubGroup;
  /// Digests of the pieces that were released last: each in the place of its number. Where more are released than there
  /// are places before they are sent, those of the older ones are forgotten.
  static constexpr std::size_t digests_max = 8;
  struct KnownDigest {
    std::size_t end = 0;  ///< of the piece, in the message; 0: none is known
    PieceDigest digest{};
  };
  static std::size_t place_of(std::size_t offset);

  std::array<KnownDigest, digests_max> digests_;
  Communicator* group_;
};

/// A message from rank `from`, or from any. Messages of one rank are taken in the order in which they were sent.
/// `co_await` returns when all of it has gone through the receiver. Fails as the communicator does, and with what the
/// receiver returned.
class Receive final : public Waiting {
 public:
  static constexpr std::uint64_t everything = std::numeric_limits<std::uint64_t>::max();

  /// The next message of rank `from`, which must be about `subject` (else: malformed). `admitted_bytes`: how many of
  /// the first bytes the receiver can take already; admit() tells of more. The rest waits in the transport.
  Receive(Communicator& group, std::uint32_t from, const Subject& subject, Receiver& receiver,
          std::uint64_t admitted_bytes = everything);
  /// The next message that arrives from any rank from which nothing else is expected. What it is about and whom it is
  /// from is known (about(), from()) when receiver.begin() is called.
  Receive(Communicator& group, Receiver& receiver);
  ~Receive();

  /// The receiver can take the first `bytes` bytes. Only ever more.
  void admit(std::uint64_t bytes);

  const Subject& about() const { return *subject; }
  std::uint32_t from() const { return *rank; }

  // For the communicator:
  std::optional<std::uint32_t> rank;
  std::optional<Subject> subject;
  Receiver& receiver;
  std::uint64_t admitted_bytes = everything;
  bool begun = false;

 private:
  friend class SubGroup;
  Communicator* group_;
};

/// Why a group fails, as its ranks tell each other.
struct Blame {
  enum class Fault : std::uint8_t {
    lost,       ///< `rank` is gone
    disagrees,  ///< `rank` does not agree with `with` about something
    gives_up,   ///< `rank` ends the group for a reason of its own
  };

  static Blame of_lost(std::uint32_t rank) { return {.fault = Fault::lost, .rank = rank, .with = rank}; }
  static Blame of_giving_up(std::uint32_t rank, const std::optional<Subject>& about = std::nullopt) {
    return {.fault = Fault::gives_up, .rank = rank, .with = rank, .about = about};
  }

  Fault fault = Fault::lost;
  std::uint32_t rank = 0;
  std::uint32_t with = 0;             ///< `rank` itself, unless they disagree
  std::optional<Subject> about = {};  ///< what they do not agree about, or what was given up, if it is one thing

  friend bool operator==(const Blame&, const Blame&) = default;
};

/// That two ranks do not agree, or that one has given up: malformed, or cancelled if it has given up all.
Error told_of(const Blame& blame);

/// What the loss of a rank means for the group.
enum class Loss : std::uint8_t {
  ends_the_group,  ///< everything fails, on all ranks, with peer_lost naming it
  ends_its_links,  ///< only sends to it and receives from it fail
};

/// One rank's end of a group: messages to and from every other rank, in the order in which they were sent. A group has
/// several lanes; each is a communicator with links of its own, so that messages of one lane never wait behind those of
/// another. Lane 0 is the most urgent. Everything happens on the loop's thread, except traffic(), traffic_with(),
/// lost_rank() and ended_by_another().
///
/// Sends and receives fail with: peer_lost (as Loss says), malformed (a frame does not follow the format, or ranks do
/// not agree about what they do; names the rank), the error that a receiver returned, or the error given to `abort`.
/// All but the loss of a rank in a group with Loss::ends_its_links is final: every later send and receive fails with
/// the same error, and the group's other ranks fail too. Destroying a communicator without `close` tells the others
/// that this rank is lost.
class Communicator {
 public:
  /// A message travels in frames of at most this many payload bytes; a Receiver sees one frame as one piece. A multiple
  /// of every element size, and small enough that a piece is still in the cache when it is worked on. With its header a
  /// full frame fits into four of the packets of up to 64 KiB that the kernel makes, whether the network carries 1,500,
  /// 9,000 or 65,536 bytes at once; a little more would make a fifth, nearly empty one of each frame.
  static constexpr std::size_t piece_bytes_max = 244 * 1024;
  static constexpr std::size_t frame_header_bytes = 64;

  /// The bytes that a message takes on the wire, at most: numbers may be packed. An empty message is one header.
  static constexpr std::uint64_t wire_bytes(std::uint64_t message_bytes) {
    const std::uint64_t frames = message_bytes == 0 ? 1 : (message_bytes + piece_bytes_max - 1) / piece_bytes_max;
    return message_bytes + frames * frame_header_bytes;
  }

  virtual ~Communicator() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;
  virtual Loop& loop() = 0;

  /// A number that ranks have in common if they run on the same host.
  virtual std::uint32_t host_of(std::uint32_t rank) const = 0;

  /// What sentences call a rank: its number in the whole group, of which this one may be a part.
  virtual std::uint32_t number_in_whole(std::uint32_t rank) const { return rank; }

  /// Where a simulated network carries no data: memory that stands for that of any message, and is not read. Else null.
  virtual const std::byte* reserved_addresses() const { return nullptr; }
  bool carries_data() const { return reserved_addresses() == nullptr; }

  /// From now on, messages belong to this operation, the next one of the lane. All ranks of the group begin the same
  /// ones, in the same order; if they do not, they find out, at the latest when nothing has arrived for a second, and
  /// fail with malformed, naming two ranks that do not agree and what about.
  virtual void begin_operation(const Operation& operation) = 0;
  virtual void end_operation() = 0;
  /// The same for an operation of some ranks of the group, of which this is one.
  virtual void begin_part(const Operation& operation, std::span<const std::uint32_t> members) = 0;
  virtual void end_part(std::span<const std::uint32_t> members) = 0;

  /// Makes all that is under way and all that comes later fail with `cause`. The others are told whom to blame: that
  /// this rank is lost, if nobody is named.
  virtual void abort(const Error& cause, const std::optional<Blame>& blame = std::nullopt) = 0;

  /// Has `call` called once when the communicator fails for good; not for the end of a single rank's links.
  virtual void when_failed(std::function<void(const Error& cause, const Blame& blame)> call) = 0;

  /// Why the communicator has failed for good; null if it has not.
  virtual const Error* failure() const = 0;

  /// Leaves the group in an orderly way: says goodbye to the others, so that they do not count this rank as lost, and
  /// waits until they are done too, but only a few seconds more when none of them reads or says that it waits for this
  /// rank, and no longer when the group is aborted. After a failure it waits a few seconds at most until they have been
  /// told why. Afterwards the communicator may only be destroyed.
  virtual Task<> close() = 0;

  /// Counts what something else than this lane's links has carried to and from another rank for an operation of it.
  virtual void count(std::uint32_t rank, const Traffic& carried) = 0;

  /// With one other rank. From any thread, as the next three.
  virtual Traffic traffic_with(std::uint32_t rank) const = 0;
  /// With all.
  Traffic traffic() const;

  /// The rank whose loss made this group fail, if that is why.
  virtual std::optional<std::uint32_t> lost_rank() const = 0;
  /// Whether the group failed because another rank told this one of what is not a loss: that it has given up, or that
  /// two do not agree. That rank knows the cause.
  virtual bool ended_by_another() const = 0;

 private:
  friend class Send;
  friend class Receive;
  friend class SubGroup;
  virtual void begin(Send& send) = 0;
  virtual void begin(Receive& receive) = 0;
  virtual void go_on(Send& send) = 0;        ///< more of it is ready
  virtual void go_on(Receive& receive) = 0;  ///< more of it is admitted
  virtual void withdraw(Send& send) = 0;     ///< it is destroyed before its end
  virtual void withdraw(Receive& receive) = 0;
};

/// Carries out `task` as the next operation of the lane. If it fails, but for the loss of a rank, the group fails.
Task<> carry_out(Communicator& group, Operation operation, Task<> task);

inline Send::Send(Communicator& group, std::uint32_t to_rank, const Subject& about, const ConstBuffer& what,
                  std::size_t ready)
    : subject(about), message(what.bytes), element(what.element), to(to_rank), ready_bytes(ready), group_(&group) {
  group_->begin(*this);
}
inline Send::~Send() {
  if (!ended()) group_->withdraw(*this);
}
inline std::size_t Send::place_of(std::size_t offset) { return offset / Communicator::piece_bytes_max % digests_max; }
inline void Send::release(std::size_t bytes, const std::optional<PieceDigest>& digest) {
  if (digest && bytes > 0) digests_[place_of(bytes - 1)] = {bytes, *digest};
  ready_bytes = bytes;
  if (!ended()) group_->go_on(*this);
}

inline std::optional<PieceDigest> Send::digest_at(std::size_t offset) const {
  const KnownDigest& known = digests_[place_of(offset)];
  const bool fits = known.end > 0 && known.end == std::min(offset + Communicator::piece_bytes_max, message.size());
  return fits ? std::optional(known.digest) : std::nullopt;
}

inline Receive::Receive(Communicator& group, std::uint32_t from_rank, const Subject& about, Receiver& into,
                        std::uint64_t admitted)
    : rank(from_rank), subject(about), receiver(into), admitted_bytes(admitted), group_(&group) {
  group_->begin(*this);
}
inline Receive::Receive(Communicator& group, Receiver& into) : receiver(into), group_(&group) { group_->begin(*this); }
inline void Receive::admit(std::uint64_t bytes) {
  admitted_bytes = bytes;
  if (!ended()) group_->go_on(*this);
}
inline Receive::~Receive() {
  if (!ended()) group_->withdraw(*this);
}

}  // namespace weir::collectives
