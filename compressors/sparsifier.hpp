#pragma once

#include <string>

#include "compressors/compressor.hpp"
#include "compressors/selection.hpp"

namespace weir::compressors {

/// The base of compressors that send some entries and leave out the rest (sparse.hpp): a member says which entries;
/// the payload and decoding are here.
class Sparsifier : public Compressor {
 public:
  Result<void> support(BytesView payload, std::uint64_t entries, std::vector<std::uint32_t>& positions) override;

 protected:
  /// `index_codec` is one of index_codec_names().
  explicit Sparsifier(std::string index_codec) : index_codec_(std::move(index_codec)) {}

  /// Fills `out` with what to send of `values` (never empty).
  /// Fails with: invalid_argument (NaN or infinity; see non_finite()).
  virtual Result<void> choose(std::span<const float> values, const Round& round, Selection& out) = 0;

  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) final;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) final;

 private:
  std::string index_codec_;
  Selection selection_;  // kept between calls for its memory
};

/// The error for a gradient that is not finite: names tensor and entry.
Error non_finite(const Round& round, std::span<const float> values);

/// How many of `entries` a ratio keeps: ceil(ratio * entries), and one at least of a tensor that has any.
std::size_t entries_kept(double ratio, std::uint64_t entries);

}  // namespace weir::compressors
