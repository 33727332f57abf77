#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compressors/compressor.hpp"
#include "compressors/kernels/selection.hpp"

namespace weir::compressors {

/// How a sparsifier writes what it has chosen; part of its parameters.
struct SparseCodecs {
  std::string index = "auto";  ///< one of index_codec_names() (codecs/index_codec.hpp)
  std::string value = "fp32";  ///< one of value_codec_names() (codecs/value_codec.hpp)
};

/// The base of compressors that send some entries and leave out the rest (codecs/sparse.hpp): a member says which
/// entries; the payload and decoding are here.
class Sparsifier : public Compressor {
 public:
  Result<void> support(BytesView payload, const Round& round, std::uint64_t entries,
                       std::vector<std::uint32_t>& positions) override;
  std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const override;

 protected:
  explicit Sparsifier(SparseCodecs codecs) : codecs_(std::move(codecs)) {}

  /// Fills `out` with what to send of `values` (never empty).
  /// Fails with: invalid_argument (NaN or infinity; see non_finite()).
  virtual Result<void> choose(std::span<const float> values, const Round& round, Selection& out) = 0;

  /// How many of that many entries (at least one) a member sends, where its parameters say.
  virtual std::optional<std::size_t> expected_count(std::uint64_t entries, const Round& round) const;

  /// The error bound of a member that always sends entries with `share` of the squared norm: what the value codec
  /// rounds away comes on top.
  double bound_for_share(double share) const;

  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) final;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) final;

 private:
  SparseCodecs codecs_;
  Selection selection_;  // kept between calls for its memory
};

/// Bits per entry of a tensor of `entries` entries (at least one), of which `count` are sent, drawn from `among`.
double expected_sparse_bits(const SparseCodecs& codecs, std::size_t count, std::uint64_t among, std::uint64_t entries);

/// How many of `entries` a ratio keeps: ceil(ratio * entries), and one at least of a tensor that has any.
std::size_t entries_kept(double ratio, std::uint64_t entries);

}  // namespace weir::compressors
