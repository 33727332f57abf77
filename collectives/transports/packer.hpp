#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/packing.hpp"
#include "collectives/transports/stream.hpp"

namespace weir::collectives {

/// Packs the numbers that go over one link (packing.hpp) while that saves more time of the line than packing and
/// unpacking take of the processors. All of it is measured as the link is used: how fast the line is, what packing
/// takes, and what these numbers come to. Only the sender decides; a frame says whether it is packed.
class Packer {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  explicit Packer(Clock now = std::chrono::steady_clock::now) : now_(std::move(now)) {}

  /// Whether the next numbers that go to `stream`, so many bytes, are to be packed.
  bool is_worthwhile(const Stream& stream, Element element, std::size_t bytes);

  /// Packs a piece into `out`, which has room for packed_bytes_max() of it, and returns what it takes there; 0: no less
  /// than before, so that it is to be sent as it is.
  std::size_t pack(Element element, BytesView piece, std::span<std::byte> out);

  /// As collectives::unpack().
  Result<void> unpack(BytesView packed, std::span<std::byte> numbers);

 private:
  void look_at(const LineUse& use);

  /// As of the numbers that pack least.
  static constexpr double usual = usual_packed_share(Element::float32);

  /// What something takes that is done again and again, but for interruptions: the least of what it took.
  struct Effort {
    double seconds_per_byte;
    bool measured = false;
    void note(double seconds, std::size_t bytes);
  };

  const Clock now_;
  bool packs_ = false;
  std::uint64_t since_look_ = 0;  ///< bytes of numbers
  std::uint32_t looks_ = 0;
  LineUse before_;        ///< at the last look
  double share_ = usual;  ///< packed bytes of all bytes, lately
  Effort packing_{0.25e-9};
  Effort unpacking_{0.25e-9};
};

}  // namespace weir::collectives
