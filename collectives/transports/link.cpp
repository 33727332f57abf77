#include "collectives/transports/link.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/errc.hpp"

namespace weir::collectives {
namespace {

// What is read beyond what is needed now, so that small messages share a system call. After a large piece it is little,
// because what is read ahead is copied once more.
constexpr std::size_t read_ahead_bytes = 16 * 1024;
constexpr std::size_t read_ahead_of_piece_bytes = 1024;

Error lost(const char* how) { return {Errc::peer_lost, how}; }
Error wrong_checksum() { return {Errc::malformed, "a frame whose checksum does not fit"}; }
/// For a receiver that has aborted the group while it took a piece.
Error given_up() { return {Errc::cancelled, "the group was aborted"}; }

/// A blame as a frame carries it.
struct WireForm {
  FrameKind kind;
  std::uint64_t number;  ///< FrameHeader::message_bytes
};
WireForm wire_form(const Blame& blame) {
  if (blame.fault == Blame::Fault::lost) return {FrameKind::failed, blame.rank};
  if (blame.fault == Blame::Fault::disagrees) {
    return {FrameKind::disagrees, std::uint64_t{blame.with} << 32 | blame.rank};
  }
  return {FrameKind::gives_up, std::uint64_t{!blame.about} << 32 | blame.rank};
}
std::optional<Blame> blame_of(const FrameHeader& header) {
  const auto rank = static_cast<std::uint32_t>(header.message_bytes);
  const auto high = static_cast<std::uint32_t>(header.message_bytes >> 32);
  if (header.kind == FrameKind::failed) return Blame::of_lost(rank);
  if (header.kind == FrameKind::disagrees) return Blame{Blame::Fault::disagrees, rank, high, header.subject};
  if (header.kind != FrameKind::gives_up) return std::nullopt;
  return Blame::of_giving_up(rank, high == 0 ? std::optional(header.subject) : std::nullopt);
}

iovec part(std::span<std::byte> bytes) { return {bytes.data(), bytes.size()}; }
iovec part(BytesView bytes) { return {const_cast<std::byte*>(bytes.data()), bytes.size()}; }

}  // namespace

std::unique_ptr<Bytes> LinkOwner::take_scratch() {
  if (scratch_.empty()) return std::make_unique<Bytes>(packed_bytes_max(Communicator::piece_bytes_max));
  auto taken = std::move(scratch_.back());
  scratch_.pop_back();
  return taken;
}

Link::Link(LinkOwner& owner, std::uint32_t peer, std::uint32_t lane, std::unique_ptr<Stream> stream)
    : Source(lane), owner_(owner), peer_(peer), lane_(lane), stream_(std::move(stream)) {
  ahead_.reserve(read_ahead_bytes);
  owner_.epoll.watch(stream_->descriptor(), *this);
}

Link::~Link() { owner_.epoll.forget(stream_->descriptor()); }

void Link::begin(Send& send) {
  sends_.push_back(send);
  go_on();
}

void Link::begin(Receive& receive) {
  receives_.push_back(receive);
  go_on();
}

void Link::end_transfers(const Error& error) {
  over_ = true;
  while (!sends_.empty()) owner_.epoll.end(sends_.front(), error);
  if (current_ != nullptr) owner_.epoll.end(*std::exchange(current_, nullptr), error);
  while (!receives_.empty()) owner_.epoll.end(receives_.front(), error);
  if (scratch_) owner_.give_back(std::move(scratch_));
}

void Link::note(std::uint32_t events) {
  const Readiness now = stream_->readiness(events);
  readable_ |= now.readable;
  writable_ |= now.writable;
  hung_up_ |= now.hung_up;
}

bool Link::work() {
  if (over_) return say_last_words();
  auto sent = send_some();
  if (!sent) {
    owner_.link_failed(peer_, sent.error());
    return false;
  }
  auto received = receive_some();
  if (!received) {
    owner_.link_failed(peer_, received.error());
    return false;
  }
  if (*sent || *received) return true;
  if (left_ || (hung_up_ && !ended_ && !awaited())) finish_side();
  if (!over_ && !unclaimed_ && !anybody_waits()) {
    unclaimed_ = true;
    owner_.note_unclaimed(*this);
  }
  return false;
}

/// The peer sends nothing more for which somebody waits now.
void Link::finish_side() {
  read_to_end();
  if (!ending_.orderly) {
    owner_.link_failed(peer_, lost("closed the connection"));
  } else if (!sends_.empty()) {
    owner_.link_failed(peer_, lost("left the group"));
  } else {
    owner_.link_ended(peer_);
  }
}

// Sending.

FrameHeader Link::next_header(FrameKind kind) const {
  return {.kind = kind,
          .attempt = owner_.attempt,
          .sequence = sequence_out_,
          .from = static_cast<std::uint16_t>(owner_.own_rank),
          .lane = static_cast<std::uint16_t>(lane_),
          .subject = {}};
}

/// Makes frames of what is ready, as many as one call should write.
void Link::prepare_frames() {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < out_count_; ++i) bytes += out_[i].payload.size();
  for (auto send = sends_.begin(); send != sends_.end(); ++send) {
    while (out_count_ < frames_max && bytes < Communicator::piece_bytes_max) {
      const bool framed = send->begun && send->sent_bytes == send->message.size();
      if (framed) break;
      const std::size_t size = std::min(send->message.size() - send->sent_bytes, Communicator::piece_bytes_max);
      if (send->ready_bytes < send->sent_bytes + size) return;
      OutFrame& frame = out_[out_count_++] = next_frame(*send, send->message.subspan(send->sent_bytes, size));
      ++sequence_out_;
      send->begun = true;
      send->sent_bytes += size;
      if (send->sent_bytes == send->message.size()) frame.send = &*send;
      bytes += frame.payload.size();
    }
    if (out_count_ == frames_max || bytes >= Communicator::piece_bytes_max) return;
  }
}

Link::OutFrame Link::next_frame(const Send& send, BytesView piece) {
  OutFrame frame{.header = {}, .payload = piece};
  FrameHeader header = next_header(FrameKind::data);
  if (send.element && packer_.is_worthwhile(*stream_, *send.element, piece.size())) {
    auto memory = owner_.take_scratch();
    if (const std::size_t packed = packer_.pack(*send.element, piece, *memory); packed > 0) {
      header.kind = FrameKind::packed;
      frame.payload = BytesView(*memory).first(packed);
      frame.packed = std::move(memory);
    } else {
      owner_.give_back(std::move(memory));
    }
  }
  header.subject = send.subject;
  header.message_bytes = send.message.size();
  header.frame_bytes = static_cast<std::uint32_t>(frame.payload.size());
  header.operation = send.operation;
  const auto known = stream_->needs_checksums() && !frame.packed ? send.digest_at(send.sent_bytes) : std::nullopt;
  frame.header = encode(header, known ? *known : checked(frame.payload));
  return frame;
}

Result<bool> Link::send_some() {
  if (!writable_ || side_ == Side::ended) return false;
  prepare_frames();
  if (out_count_ == 0) {
    if (side_ != Side::leaving || !sends_.empty()) return false;
    if (!has_last_words()) append(last_words_, last_frame(FrameKind::goodbye, 0, {}));
    return say_last_words();
  }
  std::array<iovec, 2 * frames_max> parts;
  std::size_t count = 0;
  std::size_t total = 0;
  std::size_t skip = out_written_;
  const auto add = [&](BytesView bytes) {
    const std::size_t skipped = std::min(skip, bytes.size());
    skip -= skipped;
    bytes = bytes.subspan(skipped);
    if (bytes.empty()) return;
    parts[count++] = part(bytes);
    total += bytes.size();
  };
  for (std::size_t i = 0; i < out_count_; ++i) {
    add(out_[i].header);
    add(out_[i].payload);
  }
  const auto written = stream_->write(std::span(parts).first(count));
  if (!written) return written.error();
  if (*written < total) writable_ = false;  // an event tells when there is room again
  take_written(*written);
  return *written > 0;
}

/// Counts `bytes` more as written, and ends the messages of which all is.
void Link::take_written(std::size_t bytes) {
  counter_.sent_bytes.fetch_add(bytes, std::memory_order_relaxed);
  out_written_ += bytes;
  std::size_t done = 0;
  while (done < out_count_ && out_written_ >= out_[done].header.size() + out_[done].payload.size()) {
    out_written_ -= out_[done].header.size() + out_[done].payload.size();
    if (out_[done].send != nullptr) owner_.epoll.end(*out_[done].send, {});
    if (out_[done].packed) owner_.give_back(std::move(out_[done].packed));
    if (!out_[done].counts) counter_.sent_bytes.fetch_sub(out_[done].header.size(), std::memory_order_relaxed);
    ++done;
  }
  std::move(out_.begin() + static_cast<std::ptrdiff_t>(done), out_.begin() + static_cast<std::ptrdiff_t>(out_count_),
            out_.begin());
  out_count_ -= done;
}

void Link::say_goodbye() {
  if (side_ != Side::open) return;
  side_ = Side::leaving;
  stream_->begin_last_words();
  writable_ = true;
  // So that nothing stays unread by which the peer says that it waits: when a TCP connection is closed with anything
  // unread, the system throws away what it has yet to send.
  looks_ = true;
  heard_waiting_ = false;
  queued_bytes_ = stream_->queued_bytes();
  go_on();
}

bool Link::peer_goes_on() {
  const std::size_t queued = stream_->queued_bytes();
  const bool reads = queued < std::exchange(queued_bytes_, queued);
  return std::exchange(heard_waiting_, false) || reads;
}

void Link::give_up(const Blame& blame) {
  if (side_ == Side::ended || has_last_words()) return;
  // The memory of the messages is somebody else's again from now on.
  if (out_written_ > 0) {
    append(last_words_, out_[0].header);
    append(last_words_, out_[0].payload);
    last_words_said_ = out_written_;
  }
  const auto [kind, number] = wire_form(blame);
  append(last_words_, last_frame(kind, number, blame.about.value_or(Subject())));
  stream_->begin_last_words();
  writable_ = true;
  say_last_words();
}

void Link::cut_off() {
  if (side_ == Side::ended) return;
  last_words_said_ = last_words_.size();
  stream_->end_writing();
  side_ = Side::ended;
  owner_.link_ended(peer_);
}

FrameHeaderBytes Link::last_frame(FrameKind kind, std::uint64_t number, const Subject& subject) const {
  FrameHeader header = next_header(kind);
  header.subject = subject;
  header.message_bytes = number;
  return encode(header, digest_of({}));
}

/// Ends this side as soon as all of the last words are written.
bool Link::say_last_words() {
  if (!writable_ || side_ == Side::ended) return false;
  const iovec rest = part(BytesView(last_words_).subspan(last_words_said_));
  const auto written = stream_->write(std::span(&rest, 1));
  if (written) {
    counter_.sent_bytes.fetch_add(*written, std::memory_order_relaxed);
    last_words_said_ += *written;
    // A peer that has ended its side knows enough, and may read nothing any more.
    writable_ = !has_last_words();
    if (has_last_words() && !hung_up_ && !ended_) return *written > 0;
  }
  cut_off();
  return true;
}

// Receiving.

void Link::look_around() {
  if (!over_ && stream_->is_unanswered()) return owner_.link_failed(peer_, lost("does not answer any more"));
  const bool waits = is_waited_for();
  // Behind a frame that has no room the peer would not see it, and does not need to: the frame says as much.
  if (waits && side_ == Side::open && out_count_ == 0) {
    FrameHeader header = next_header(FrameKind::waits);
    header.subject = owner_.operations.about(peer_);
    header.operation = owner_.operations.last(peer_);
    out_[out_count_++] = {.header = encode(header, digest_of({})), .payload = {}, .counts = false};
  }
  looks_ = true;
  go_on();
}

std::optional<Subject> Link::due() const {
  if (current_ != nullptr) return current_->subject;
  return receives_.empty() ? std::nullopt : receives_.front().subject;
}

/// Whether somebody waits for what the peer sends next.
bool Link::awaited() {
  if (!anybody_waits()) return false;
  return !frame_ || current_->admitted_bytes >= message_taken_ + piece_bytes_;
}

Result<bool> Link::receive_some() {
  if (left_ && is_waited_for()) return lost("left the group");
  bool moved = false;
  std::size_t taken = 0;
  const auto looks = [&] { return looks_ && !hung_up_ && !frame_ && !anybody_waits(); };
  while (taken < Communicator::piece_bytes_max && (awaited() || looks())) {
    if (!frame_) {
      auto filled = fill(header_, header_filled_);
      if (!filled) return filled.error();
      moved |= *filled;
      if (header_filled_ < header_.size()) return moved;
      auto header = decode(header_);
      if (!header) return instead_of_what_is_due(header.error());
      if (auto expected = expect_origin(*header); !expected) {
        return expected.error().within(to_string(due().value_or(header->subject)));
      }
      if (header->kind != FrameKind::waits && !anybody_waits()) {
        looks_ = false;
        if (!carries_piece(header->kind)) return moved;
        if (auto fits = owner_.operations.expect_later(peer_, header->operation); !fits) return fits.error();
        return moved;
      }
      if (auto begun = begin_piece(*header); !begun) return begun.error();
      if (header->kind == FrameKind::waits) taken += header_.size();
      continue;
    }
    if (!payload_placed_) make_place();
    auto filled = fill(payload_, payload_filled_);
    if (!filled) return filled.error();
    moved |= *filled;
    if (payload_filled_ < payload_.size()) return moved;
    taken += payload_.size() + header_.size();
    if (auto ended = end_piece(); !ended) return ended.error();
  }
  return moved;
}

Result<void> Link::expect_origin(const FrameHeader& header) const {
  if (header.attempt != owner_.attempt) {
    return Error{Errc::malformed, "a frame of attempt " + std::to_string(header.attempt) + " in attempt " +
                                      std::to_string(owner_.attempt)};
  }
  if (header.from != peer_ || header.lane != lane_) {
    return Error{Errc::malformed, "a frame of rank " + std::to_string(header.from) + " in lane " +
                                      std::to_string(header.lane) + " where those of rank " + std::to_string(peer_) +
                                      " in lane " + std::to_string(lane_) + " are due"};
  }
  return {};
}

Error Link::instead_of_what_is_due(const Error& error) const {
  const auto subject = due();
  return subject ? error.within(to_string(*subject)) : error;
}

/// A header is complete: checks it, and finds who waits for its message.
Result<void> Link::begin_piece(const FrameHeader& header) {
  if (!carries_piece(header.kind)) {
    if (!checksum_fits(header_, digest_of({}))) return instead_of_what_is_due(wrong_checksum());
    if (header.kind == FrameKind::waits) return hear_waiting(header);
    note_ending(header);
    left_ = header.kind == FrameKind::goodbye && !is_waited_for();
    if (left_) return {};
    return lost(header.kind == FrameKind::goodbye ? "left the group" : "gave up");
  }
  if (header.sequence != sequence_in_) {
    return instead_of_what_is_due({Errc::malformed, "frame " + std::to_string(header.sequence) + " where " +
                                                        std::to_string(sequence_in_) + " is due"});
  }
  if (current_ == nullptr) {
    current_ = receives_.empty() ? owner_.receive_from_any() : &receives_.front();
    current_->unlink();
    current_->begun = true;
    current_->rank = peer_;
    if (!current_->subject) current_->subject = header.subject;
    message_bytes_ = header.message_bytes;
    message_taken_ = 0;
    if (header.subject != *current_->subject) {
      return Error{Errc::malformed, "a message about " + to_string(header.subject) + " where " +
                                        to_string(*current_->subject) + " is due"};
    }
    if (auto fits = owner_.operations.expect(peer_, header.operation); !fits) return fits;
    if (auto begun = current_->receiver.begin(message_bytes_); !begun) {
      return begun.error().within(to_string(header.subject));
    }
    if (current_ == nullptr) return given_up();
  }
  const std::uint64_t due = std::min<std::uint64_t>(message_bytes_ - message_taken_, Communicator::piece_bytes_max);
  const bool fits =
      header.kind == FrameKind::data ? header.frame_bytes == due : header.frame_bytes > 0 && header.frame_bytes < due;
  if (header.subject != *current_->subject || header.message_bytes != message_bytes_ || !fits) {
    return instead_of_what_is_due({Errc::malformed, "a frame that does not go on with its message"});
  }
  frame_ = header;
  piece_bytes_ = due;
  payload_placed_ = false;
  return {};
}

/// Finds memory for the payload: where the receiver wants the piece to be, if it is not packed.
void Link::make_place() {
  payload_placed_ = true;
  payload_filled_ = 0;
  payload_ = {};
  if (frame_->frame_bytes == 0) return;
  if (frame_->kind == FrameKind::data) payload_ = current_->receiver.place(message_taken_, piece_bytes_);
  if (!payload_.empty()) return;
  scratch_ = owner_.take_scratch();
  payload_ = std::span(*scratch_).first(frame_->frame_bytes);
}

Result<void> Link::hear_waiting(const FrameHeader& header) {
  if (header.frame_bytes > 0) return Error{Errc::malformed, "a frame without data that has some"};
  header_filled_ = 0;
  heard_waiting_ = true;
  counter_.received_bytes.fetch_sub(header_.size(), std::memory_order_relaxed);
  return owner_.operations.compare(peer_, header.operation, is_waited_for());
}

/// A payload is complete: checks it, and passes it on.
Result<void> Link::end_piece() {
  const PieceDigest digest = checked(payload_);
  if (!checksum_fits(header_, digest)) return instead_of_what_is_due(wrong_checksum());
  const bool knows = stream_->needs_checksums() && frame_->kind == FrameKind::data;
  const std::uint64_t offset = message_taken_;
  std::span<std::byte> piece = payload_;
  if (frame_->kind == FrameKind::packed) {
    piece = current_->receiver.place(offset, piece_bytes_);
    std::unique_ptr<Bytes> unpacked;
    if (piece.empty()) {
      unpacked = owner_.take_scratch();
      piece = std::span(*unpacked).first(piece_bytes_);
    }
    const auto whole = packer_.unpack(payload_, piece);
    owner_.give_back(std::exchange(scratch_, std::move(unpacked)));
    if (!whole) return instead_of_what_is_due(whole.error());
  }
  message_taken_ += piece_bytes_;
  ++sequence_in_;
  ++frames_received_;
  header_filled_ = 0;
  frame_.reset();
  if (!piece.empty()) {
    current_->receiver.arrived(offset, piece);
    if (current_ == nullptr) return given_up();
    current_->receiver.progressed(message_taken_, knows ? std::optional(digest) : std::nullopt);
    if (current_ == nullptr) return given_up();
  }
  if (scratch_) owner_.give_back(std::move(scratch_));
  if (message_taken_ == message_bytes_) owner_.epoll.end(*std::exchange(current_, nullptr), {});
  return {};
}

/// Fills `into` from what was read ahead, then from the stream, at most once.
Result<bool> Link::fill(std::span<std::byte> into, std::size_t& filled) {
  const std::size_t before = filled;
  const auto take_ahead = [&] {
    const std::size_t taken = std::min(ahead_.size() - ahead_begin_, into.size() - filled);
    if (taken > 0) std::memcpy(into.data() + filled, ahead_.data() + ahead_begin_, taken);
    ahead_begin_ += taken;
    filled += taken;
  };
  take_ahead();
  if (filled == into.size() || !readable_) return filled > before;
  const std::span<std::byte> rest = into.subspan(filled);
  const bool large = rest.size() >= read_ahead_bytes;
  ahead_begin_ = 0;
  ahead_.resize(large ? read_ahead_of_piece_bytes : read_ahead_bytes, boost::container::default_init);
  const std::array parts{part(rest), part(std::span(ahead_))};
  const auto got = stream_->read(parts);
  if (!got) {
    ahead_.clear();
    ended_ = true;
    return got.error();
  }
  counter_.received_bytes.fetch_add(*got, std::memory_order_relaxed);
  // After a short read an event tells of more, except for the end, of which one has told already.
  if (*got < rest.size() + ahead_.size() && !hung_up_) readable_ = false;
  if (*got == 0) readable_ = hung_up_;
  const std::size_t direct = std::min(*got, rest.size());
  filled += direct;
  ahead_.resize(*got - direct);
  return filled > before;
}

void Link::read_to_end() {
  if (ended_) return;
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(ahead_begin_));
  ahead_begin_ = 0;
  while (true) {
    const std::size_t before = ahead_.size();
    ahead_.resize(before + 64 * 1024);
    const iovec rest = part(std::span(ahead_).subspan(before));
    const auto got = stream_->read(std::span(&rest, 1));
    ahead_.resize(before + (got ? *got : 0));
    if (!got || *got == 0) break;
    counter_.received_bytes.fetch_add(*got, std::memory_order_relaxed);
  }
  readable_ = true;  // whoever still waits is to find the end
  ended_ = true;
  // The last frame may have been looked at already.
  Bytes tail;
  if (!frame_) append(tail, std::span(header_).first(header_filled_));
  append(tail, ahead_);
  FrameHeaderBytes last;
  if (tail.size() < last.size()) return;
  std::memcpy(last.data(), tail.data() + tail.size() - last.size(), last.size());
  const auto header = decode(last);
  if (header && !carries_piece(header->kind) && header->kind != FrameKind::waits && expect_origin(*header) &&
      checksum_fits(last, digest_of({}))) {
    note_ending(*header);
  }
}

void Link::note_ending(const FrameHeader& last) {
  ended_ = true;
  ending_.orderly = last.kind == FrameKind::goodbye;
  ending_.blame = blame_of(last);
}

}  // namespace weir::collectives
