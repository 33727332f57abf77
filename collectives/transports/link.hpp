#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/communicator.hpp"
#include "collectives/transports/epoll_loop.hpp"
#include "collectives/transports/frame.hpp"
#include "collectives/transports/packer.hpp"
#include "collectives/transports/stream.hpp"

namespace weir::collectives {

class Link;

/// What the links of a communicator share.
class LinkOwner {
 public:
  /// Somebody who waits for a message of any rank; null if nobody does.
  virtual Receive* receive_from_any() = 0;
  /// There may be a message for which nobody waits: when somebody waits for one of any rank, claim() is to be called.
  virtual void note_unclaimed(Link& link) = 0;
  /// The link cannot go on. The error is peer_lost if the peer has left or is gone.
  virtual void link_failed(std::uint32_t peer, const Error& error) = 0;
  /// The link has ended: the peer has ended its side, in good order, and nothing was under way, or all is said after
  /// Link::give_up().
  virtual void link_ended(std::uint32_t peer) = 0;

  EpollLoop& epoll;
  const std::uint32_t own_rank;
  const std::uint64_t attempt;
  OperationLog operations;

  /// Memory for a piece, packed or not, that has no place of its own.
  std::unique_ptr<Bytes> take_scratch();
  void give_back(std::unique_ptr<Bytes> scratch) { scratch_.push_back(std::move(scratch)); }

 protected:
  LinkOwner(EpollLoop& event_loop, std::uint32_t rank_number, std::uint64_t attempt_number)
      : epoll(event_loop), own_rank(rank_number), attempt(attempt_number) {}
  ~LinkOwner() = default;

 private:
  std::vector<std::unique_ptr<Bytes>> scratch_;  ///< not in use
};

/// How a connection ended.
struct Ending {
  bool orderly = false;        ///< the peer said goodbye
  std::optional<Blame> blame;  ///< why the peer gave up
};

/// The connection to one rank in one lane: the messages that wait for it, and its frames in both directions.
class Link final : public EpollLoop::Source {
 public:
  Link(LinkOwner& owner, std::uint32_t peer, std::uint32_t lane, std::unique_ptr<Stream> stream);
  ~Link();

  void begin(Send& send);
  void begin(Receive& receive);
  /// Something can go on: more of a message is there or admitted, or somebody waits for a message of any rank.
  void go_on() { owner_.epoll.activate(*this); }
  void claim() {
    unclaimed_ = false;
    go_on();
  }

  /// Ends all that is under way with `error`.
  void end_transfers(const Error& error);

  /// From any thread.
  Traffic traffic() const { return counter_.now(); }
  /// Counts what something else has carried.
  void count(const Traffic& carried) {
    counter_.sent_bytes.fetch_add(carried.sent_bytes, std::memory_order_relaxed);
    counter_.received_bytes.fetch_add(carried.received_bytes, std::memory_order_relaxed);
  }

  /// Says goodbye as soon as there is room for it, and ends this side. Afterwards the link still hears that the peer
  /// waits.
  void say_goodbye();
  /// Whether the peer has read, or has said that it waits, since this was asked last; at first, since say_goodbye().
  bool peer_goes_on();
  /// Ends this side and says why. If there is no room for it, or a frame is half written, which is then written to its
  /// end, this takes until the peer has read enough; a peer that has ended its side is not waited for.
  void give_up(const Blame& blame);
  /// Whether give_up() still has something to say.
  bool has_last_words() const { return last_words_said_ < last_words_.size(); }
  /// Ends this side at once.
  void cut_off();

  /// Nothing has arrived for a while: tells the peer in which operation this rank waits for it, if it does, and looks
  /// at what has arrived of messages for which nobody waits.
  void look_around();

  std::uint64_t frames_received() const { return frames_received_; }

  /// What the next message should be about, if somebody waits for it.
  std::optional<Subject> due() const;

  /// The peer's side has ended, and all of it was read.
  bool ended() const { return ended_; }
  const Ending& ending() const { return ending_; }
  /// For a peer that has ended its side: finds out how, by reading what is left without waiting for more.
  void read_to_end();

  void note(std::uint32_t events) override;
  bool work() override;

 private:
  /// A frame that is being written.
  struct OutFrame {
    FrameHeaderBytes header;
    BytesView payload;
    Send* send = nullptr;                     ///< ends with this frame
    bool counts = true;                       ///< as traffic: not if it says that this rank waits
    std::unique_ptr<Bytes> packed = nullptr;  ///< where the payload is, if it is not part of the message
  };
  static constexpr std::size_t frames_max = 8;  ///< that are written with one call

  Result<bool> send_some();
  void prepare_frames();
  OutFrame next_frame(const Send& send, BytesView piece);
  void take_written(std::size_t bytes);
  /// The header of a frame that this link sends next; what it is about is to be filled in.
  FrameHeader next_header(FrameKind kind) const;
  Result<void> expect_origin(const FrameHeader& header) const;
  /// What is wrong with a frame in the place of what is due, if it is known what is.
  Error instead_of_what_is_due(const Error& error) const;
  FrameHeaderBytes last_frame(FrameKind kind, std::uint64_t number, const Subject& subject) const;
  bool say_last_words();
  Result<bool> receive_some();
  Result<void> begin_piece(const FrameHeader& header);
  void make_place();
  Result<void> end_piece();
  Result<bool> fill(std::span<std::byte> into, std::size_t& filled);
  void finish_side();
  /// Whether somebody waits for a message of this peer.
  bool is_waited_for() const { return current_ != nullptr || !receives_.empty(); }
  bool anybody_waits() { return is_waited_for() || (!left_ && owner_.receive_from_any() != nullptr); }
  bool awaited();
  Result<void> hear_waiting(const FrameHeader& header);
  /// What of a payload goes into its frame's checksum.
  PieceDigest checked(BytesView payload) const { return digest_of(stream_->needs_checksums() ? payload : BytesView()); }
  void note_ending(const FrameHeader& last);

  LinkOwner& owner_;
  const std::uint32_t peer_;
  const std::uint32_t lane_;
  const std::unique_ptr<Stream> stream_;
  Packer packer_;
  bool readable_ = true;
  bool writable_ = true;
  bool hung_up_ = false;

  WaitingList<Send> sends_;
  std::array<OutFrame, frames_max> out_;  ///< prepared, in order, of which the first `out_written_` bytes are written
  std::size_t out_count_ = 0;
  std::size_t out_written_ = 0;
  std::uint32_t sequence_out_ = 0;
  Bytes last_words_;  ///< what is left of the frame that was being written at give_up(), and the reason
  std::size_t last_words_said_ = 0;
  enum class Side : std::uint8_t { open, leaving, ended } side_ = Side::open;

  WaitingList<Receive> receives_;
  Receive* current_ = nullptr;  ///< takes the message of which a frame has arrived
  FrameHeaderBytes header_{};
  std::size_t header_filled_ = 0;
  std::optional<FrameHeader> frame_;  ///< whose payload is next
  std::size_t piece_bytes_ = 0;       ///< of the message that the frame carries
  std::span<std::byte> payload_;      ///< where it goes
  std::size_t payload_filled_ = 0;
  bool payload_placed_ = false;
  std::unique_ptr<Bytes> scratch_;  ///< of the payload, if it has no place of its own
  std::uint64_t message_bytes_ = 0;
  std::uint64_t message_taken_ = 0;
  std::uint32_t sequence_in_ = 0;
  std::uint64_t frames_received_ = 0;

  Bytes ahead_;  ///< read, not used yet
  std::size_t ahead_begin_ = 0;
  bool ended_ = false;
  bool left_ = false;             ///< its goodbye was read by somebody who waits for a message of any rank
  bool over_ = false;             ///< nothing is sent or received any more
  bool unclaimed_ = false;        ///< the owner knows that a message may be there
  bool looks_ = false;            ///< at the next header, though nobody waits for its message
  bool heard_waiting_ = false;    ///< since peer_goes_on() looked last
  std::size_t queued_bytes_ = 0;  ///< when it looked last
  Ending ending_;
  TrafficCounter counter_;
};

}  // namespace weir::collectives
