#pragma once

#include "base/descriptor.hpp"
#include "collectives/transports/stream.hpp"

namespace weir::collectives {

/// A connected stream socket that does not block.
class SocketStream final : public Stream {
 public:
  explicit SocketStream(Descriptor socket) : socket_(std::move(socket)) {}

  Result<std::size_t> write(std::span<const iovec> parts) override;
  Result<std::size_t> read(std::span<const iovec> parts) override;
  void end_writing() override;
  std::size_t queued_bytes() const override;
  int descriptor() const override { return *socket_; }
  Readiness readiness(std::uint32_t events) override;
  bool is_unanswered() const override;
  bool needs_checksums() const override { return true; }
  std::optional<LineUse> line_use() const override;

 private:
  /// Has events tell of bytes only when so many are there, or the end.
  void wake_at(std::size_t bytes);

  Descriptor socket_;
  std::size_t wakes_at_ = 1;
};

}  // namespace weir::collectives
