#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/bytes.hpp"
#include "base/function_ref.hpp"
#include "base/result.hpp"

namespace weir::compressors {

/// The envelope of every gathered payload on the wire. (A payload that is summed has none: it is a bare array of
/// numbers.)
///
///     0      u8      0xA0 | version (1)
///     1      u8      format, one number per body layout
///     2      varint  bytes of the body (LEB128, 1 to 5 bytes, shortest form)
///     ..     u32     checksum: low half of XXH3-64 of the body, seeded with XXH3-64 of the bytes before this
///     ..     body
///
/// which adds 7 to 11 bytes to the body. If the body is longer than checksum_piece, the checksum is computed over the
/// 64-bit XXH3-64 hashes of its pieces instead, so that several threads can share the work. The payloads of a bucket
/// follow each other without gaps.
enum class Format : std::uint8_t {
  sparse = 1,      ///< codecs/sparse.hpp
  int8 = 2,        ///< quantizers/int8.hpp: signed, a scale per channel
  uint8 = 3,       ///< quantizers/uint8.hpp: a scale and a zero per channel
  natural = 4,     ///< quantizers/natural.hpp: powers of two
  qsgd = 5,        ///< quantizers/qsgd.hpp: levels between zero and a bucket's norm
  ternary = 6,     ///< quantizers/terngrad.hpp: -1, 0 or 1 times a scale
  signs = 7,       ///< quantizers/signs.hpp: -1 or 1
  two_values = 8,  ///< quantizers/signs.hpp: one of two values
  survivors = 9,   ///< sparsifiers/cocktail.hpp: sparse among entries that the seed has chosen
  low_rank = 10,   ///< transforms/atoms.hpp: outer products
  dct = 11,        ///< transforms/demo.hpp: sparse among cosine coefficients
  quantile = 12,   ///< sketches/sketchml.hpp
  clusters = 13,   ///< sketches/casq.hpp; 14 is free
  seeded = 15,     ///< sparsifiers/randomk.hpp: values at positions that the seed has chosen
  balanced = 16,   ///< transforms/atoms.hpp: sparse, where most values have one magnitude
  counts = 17,     ///< codecs/counts.hpp: what ranks tell each other beside their payloads
};
inline constexpr std::uint8_t formats_end = 18;  ///< one past the last format

inline constexpr std::uint8_t payload_version = 1;
inline constexpr std::size_t payload_header_bytes_max = 11;
inline constexpr std::size_t checksum_piece = 65536;  ///< bytes

/// Calls body(i) for every i below `count`, in any order and on any threads.
using PartLoop = std::function<void(std::size_t count, FunctionRef<void(std::size_t)> body)>;

/// The PartLoop that runs on the calling thread, in order.
void one_by_one(std::size_t count, FunctionRef<void(std::size_t)> body);

/// Appends one payload to a buffer. The constructor writes the header and makes room for the body; the caller fills
/// body() and calls seal(), which writes the checksum.
class PayloadWriter {
 public:
  PayloadWriter(Bytes& out, Format format, std::size_t body_bytes);

  /// The memory of the body, uninitialized: every byte must be written.
  std::span<std::byte> body();
  void seal(const PartLoop& for_each_part = one_by_one);

 private:
  Bytes& out_;
  std::size_t start_;
  std::size_t body_;
};

/// Splits the first payload off `stream`: returns all of it, header included, and advances `stream` past it. Reads only
/// the header. Fails with: malformed, unsupported (another version); `stream` is then unchanged.
Result<BytesView> take_payload(BytesView& stream);

/// Checks header and checksum of `payload`, which must be exactly one payload of that format, and returns its body.
/// Fails with: malformed, unsupported (another version or format).
Result<BytesView> open_payload(BytesView payload, Format format, const PartLoop& for_each_part = one_by_one);

}  // namespace weir::compressors
