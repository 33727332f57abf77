#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compressors/codecs/payload.hpp"
#include "compressors/compressor.hpp"

namespace weir::compressors {

/// What a code that has a place for every entry knows of its tensor.
struct Extent {
  std::uint64_t entries = 0;
  std::uint64_t channels = 1;  ///< size of the first of two or more dimensions, or 1
};

/// The base of compressors that write a short code for every entry: a member says how long the code is, writes it and
/// reads it; header, checksum and sizes are here. The body of the payload is
///
///     varint  entries of the tensor
///     ...     the code
class Quantizer : public Compressor {
 public:
  std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const override;

 protected:
  virtual Format format() const = 0;

  /// How many bytes write() fills.
  virtual std::size_t code_bytes(const Extent& extent) const = 0;

  /// Fills `code` for `values` (never empty). False if one of them is NaN or infinite; `code` is then forgotten.
  virtual bool write(std::span<const float> values, const Extent& extent, const Round& round,
                     std::span<std::byte> code) = 0;

  /// sum += weight * what `code` stands for. It has code_bytes(), but is untrusted otherwise: a code that write() would
  /// never give may be refused or decoded to any finite floats. Fails with: malformed.
  virtual Result<void> read_add(BytesView code, const Extent& extent, float weight, std::span<float> sum) = 0;

  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;
};

}  // namespace weir::compressors
