#pragma once

#include <memory>

#include "base/descriptor.hpp"
#include "collectives/transports/stream.hpp"
#include "collectives/transports/token_bucket.hpp"

namespace weir::collectives {

/// The rate of one rank's port, which its connections share.
struct Pace {
  explicit Pace(double bytes_per_second) : sent(bytes_per_second), received(bytes_per_second) {}
  Pace(double bytes_per_second, const std::function<TokenBucket::Time()>& now)
      : sent(bytes_per_second, now), received(bytes_per_second, now) {}

  TokenBucket sent;
  TokenBucket received;
};

/// A connection on which bytes pass no faster than a slow line would carry them, in each direction. What the peer has
/// written before it hung up is read as fast as it comes, and last words are written as fast as there is room for them.
/// Used by one thread, as all streams of the same pace.
class PacedStream final : public Stream {
 public:
  PacedStream(std::unique_ptr<Stream> stream, std::shared_ptr<Pace> pace);

  Result<std::size_t> write(std::span<const iovec> parts) override;
  Result<std::size_t> read(std::span<const iovec> parts) override;
  void begin_last_words() override { writes_freely_ = true; }
  void end_writing() override { stream_->end_writing(); }
  std::size_t queued_bytes() const override { return stream_->queued_bytes(); }
  int descriptor() const override { return *events_; }
  Readiness readiness(std::uint32_t events) override;
  bool is_unanswered() const override { return stream_->is_unanswered(); }
  bool needs_checksums() const override { return stream_->needs_checksums(); }
  std::optional<LineUse> line_use() const override;

 private:
  template <class Pass>
  Result<std::size_t> pass(TokenBucket& bucket, std::span<const iovec> parts, const Pass& pass);
  void wake_after(std::chrono::nanoseconds time);

  const std::unique_ptr<Stream> stream_;
  const std::shared_ptr<Pace> pace_;
  Descriptor timer_;   ///< tells that bytes may pass again
  Descriptor events_;  ///< of the stream and of the timer
  bool reads_freely_ = false;
  bool writes_freely_ = false;
  std::uint64_t written_bytes_ = 0;
};

}  // namespace weir::collectives
