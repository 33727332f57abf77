#include "collectives/tcp_link.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/errc.hpp"

namespace weir::collectives {
namespace {

// A read for a header asks for more than the header, so that a small message costs one system call.
constexpr std::size_t read_ahead_bytes = 4096;

Error lost(const char* how) { return {Errc::peer_lost, how}; }

Error system_error(const char* what) {
  const boost::system::error_code code(errno, boost::system::system_category());
  return {Errc::peer_lost, std::string(what) + ": " + code.message()};
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

TcpLink::TcpLink(Descriptor socket, std::uint64_t attempt, TrafficCounter& traffic)
    : socket_(std::move(socket)), attempt_(attempt), traffic_(traffic) {}

void TcpLink::begin_send(BytesView message) {
  sending_ = true;
  message_ = message;
  message_out_bytes_ = message.size();
  next_frame();
}

void TcpLink::next_frame() {
  piece_out_ = message_.first(std::min(message_.size(), Communicator::piece_bytes_max));
  message_ = message_.subspan(piece_out_.size());
  const FrameHeader header{.attempt = attempt_,
                           .sequence = sequence_out_++,
                           .message_bytes = message_out_bytes_,
                           .frame_bytes = static_cast<std::uint32_t>(piece_out_.size())};
  header_out_ = encode(header, piece_out_);
  header_out_written_ = 0;
}

TcpLink::Progress TcpLink::send_some() {
  const std::size_t header_rest = header_out_.size() - header_out_written_;
  iovec parts[2] = {{header_out_.data() + header_out_written_, header_rest},
                    {const_cast<std::byte*>(piece_out_.data()), piece_out_.size()}};
  msghdr call{};
  call.msg_iov = parts;
  call.msg_iovlen = 2;
  const ssize_t written = ::sendmsg(*socket_, &call, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written < 0) {
    if (would_block()) return false;
    return system_error("write");
  }
  const auto bytes = static_cast<std::size_t>(written);
  traffic_.sent_bytes.fetch_add(bytes, std::memory_order_relaxed);
  const std::size_t of_header = std::min(bytes, header_rest);
  header_out_written_ += of_header;
  piece_out_ = piece_out_.subspan(bytes - of_header);
  if (header_out_written_ == header_out_.size() && piece_out_.empty()) {
    if (message_.empty()) {
      sending_ = false;
    } else {
      next_frame();
    }
  }
  return true;
}

void TcpLink::begin_receive(Receiver& receiver) {
  receiver_ = &receiver;
  message_in_bytes_.reset();
  message_in_taken_ = 0;
}

TcpLink::Progress TcpLink::receive_some() {
  bool moved = false;
  if (!frame_in_) {
    auto filled = fill(header_in_, header_in_filled_);
    if (!filled) return filled.error();
    moved = *filled;
    if (header_in_filled_ < header_in_.size()) return moved;
    if (auto begun = begin_piece(); !begun) return begun.error();
  }
  if (piece_in_filled_ < piece_in_.size()) {
    auto filled = fill(piece_in_, piece_in_filled_);
    if (!filled) return filled.error();
    moved |= *filled;
  }
  if (piece_in_filled_ == piece_in_.size()) {
    if (auto ended = end_piece(); !ended) return ended.error();
  }
  return moved;
}

/// Called when a header is complete: checks it and prepares for its payload.
Result<void> TcpLink::begin_piece() {
  auto header = decode(header_in_);
  if (!header) return header.error();
  if (header->attempt != attempt_) {
    return Error{Errc::malformed,
                 "a frame of attempt " + std::to_string(header->attempt) + " in attempt " + std::to_string(attempt_)};
  }
  if (header->kind != FrameKind::data) {
    if (!checksum_fits(header_in_, {})) return Error{Errc::malformed, "a frame whose checksum does not fit"};
    note_ending(*header);
    return lost(header->kind == FrameKind::goodbye ? "left the group" : "gave up");
  }
  if (header->sequence != sequence_in_) {
    return Error{Errc::malformed,
                 "frame " + std::to_string(header->sequence) + " where " + std::to_string(sequence_in_) + " is due"};
  }
  if (!message_in_bytes_) {
    if (auto begun = receiver_->begin(header->message_bytes); !begun) return begun;
    message_in_bytes_ = header->message_bytes;
  }
  const std::uint64_t due =
      std::min<std::uint64_t>(*message_in_bytes_ - message_in_taken_, Communicator::piece_bytes_max);
  if (header->message_bytes != *message_in_bytes_ || header->frame_bytes != due) {
    return Error{Errc::malformed, "a frame that does not go on with its message"};
  }
  frame_in_ = *header;
  piece_in_filled_ = 0;
  piece_in_ = due == 0 ? std::span<std::byte>() : receiver_->place(message_in_taken_, due);
  return {};
}

/// Called when a payload is complete: checks it and passes it on.
Result<void> TcpLink::end_piece() {
  if (!checksum_fits(header_in_, piece_in_)) return Error{Errc::malformed, "a frame whose checksum does not fit"};
  if (!piece_in_.empty()) receiver_->arrived(message_in_taken_, piece_in_);
  message_in_taken_ += piece_in_.size();
  ++sequence_in_;
  header_in_filled_ = 0;
  frame_in_.reset();
  if (message_in_taken_ == *message_in_bytes_) receiver_ = nullptr;
  return {};
}

/// Fills `into` from what was read ahead, then from the socket.
Result<bool> TcpLink::fill(std::span<std::byte> into, std::size_t& filled) {
  bool moved = false;
  while (filled < into.size()) {
    const std::span<std::byte> rest = into.subspan(filled);
    if (const std::size_t waiting = ahead_.size() - ahead_begin_; waiting > 0) {
      const std::size_t taken = std::min(waiting, rest.size());
      std::memcpy(rest.data(), ahead_.data() + ahead_begin_, taken);
      ahead_begin_ += taken;
      filled += taken;
      moved = true;
      continue;
    }
    if (ended_) return lost("closed the connection");
    ahead_.clear();
    ahead_begin_ = 0;
    const bool direct = rest.size() >= read_ahead_bytes;
    if (!direct) ahead_.resize(read_ahead_bytes, boost::container::default_init);
    const ssize_t got = direct ? ::recv(*socket_, rest.data(), rest.size(), MSG_DONTWAIT)
                               : ::recv(*socket_, ahead_.data(), ahead_.size(), MSG_DONTWAIT);
    ahead_.resize(direct || got < 0 ? 0 : static_cast<std::size_t>(got));
    if (got < 0 && would_block()) return moved;
    if (got < 0) return system_error("read");
    if (got == 0) {
      ended_ = true;
      return lost("closed the connection");
    }
    traffic_.received_bytes.fetch_add(static_cast<std::uint64_t>(got), std::memory_order_relaxed);
    if (direct) {
      filled += static_cast<std::size_t>(got);
      return true;  // one read at a time: sending gets its turn
    }
  }
  return moved;
}

void TcpLink::read_to_end() {
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(ahead_begin_));
  ahead_begin_ = 0;
  while (!ended_) {
    const std::size_t before = ahead_.size();
    ahead_.resize(before + 64 * 1024);
    const ssize_t got = ::recv(*socket_, ahead_.data() + before, ahead_.size() - before, MSG_DONTWAIT);
    ahead_.resize(before + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) traffic_.received_bytes.fetch_add(static_cast<std::uint64_t>(got), std::memory_order_relaxed);
    if (got <= 0) ended_ = true;
  }
  FrameHeaderBytes last;
  if (ahead_.size() < last.size()) return;
  std::memcpy(last.data(), ahead_.data() + ahead_.size() - last.size(), last.size());
  const auto header = decode(last);
  if (header && header->kind != FrameKind::data && header->attempt == attempt_ && checksum_fits(last, {})) {
    note_ending(*header);
  }
}

void TcpLink::note_ending(const FrameHeader& last) {
  ended_ = true;
  ending_.orderly = last.kind == FrameKind::goodbye;
  if (last.kind == FrameKind::failed) ending_.lost_rank = static_cast<std::uint32_t>(last.message_bytes);
}

bool TcpLink::leave(FrameKind kind, std::uint64_t value) {
  if (!sending_) {
    const FrameHeader header{.kind = kind, .attempt = attempt_, .sequence = sequence_out_, .message_bytes = value};
    const FrameHeaderBytes bytes = encode(header, {});
    const ssize_t written = ::send(*socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0 && would_block()) return false;
    if (written > 0) traffic_.sent_bytes.fetch_add(static_cast<std::uint64_t>(written), std::memory_order_relaxed);
  }
  hang_up();
  return true;
}

void TcpLink::hang_up() { ::shutdown(*socket_, SHUT_WR); }

}  // namespace weir::collectives
