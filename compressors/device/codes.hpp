#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/half.hpp"
#include "base/result.hpp"
#include "compressors/kernels/quantization/quantize.hpp"
#include "compressors/kernels/quantization/signs.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/kernels/sketching/clusters.hpp"

namespace weir::compressors::device {

// What compressors that write numbers without positions make of contiguous float32 tensors on a device, in the calling
// thread's current stream (device.hpp): the bytes that their twins on the processor write, and nothing else comes down.

class Download;

/// Where a code is written, on the device.
struct CodePlace {
  std::byte* code = nullptr;  ///< aligned to 16 bytes
  std::byte* head = nullptr;  ///< what the kernels report beside it
};

/// Codes of several tensors, which come to the host together while others are still written or read.
class Codes {
 public:
  /// Room beside a tensor for codes of so many bytes each.
  static Result<Codes> make(const at::Tensor& beside, std::span<const std::size_t> bytes);
  Codes(Codes&&) noexcept;
  ~Codes();

  CodePlace place(std::size_t i) const;
  /// Begins to bring down what has been put into the stream.
  Result<void> begin_down();

  struct Read {
    bool finite = true;  ///< false, with a meaningless code: a value that was read is NaN or infinite
    SignSums sums;       ///< of begin_signs()
  };
  /// Waits for code number i, and copies it to `code`, which has its size. Several threads may read.
  Result<Read> read(std::size_t i, std::span<std::byte> code) const;

 private:
  explicit Codes(std::unique_ptr<Download> down);

  std::unique_ptr<Download> down_;  ///< with a code as each tensor's body
};

// Each puts into the stream what writes the code of a tensor.

/// The signs alone, zeros by coins (SignSgd).
Result<void> begin_votes(const at::Tensor& values, const RandomKey& coins, const CodePlace& to);
/// The signs, zeros as positive, and the sums of the entries of each (TwoValues).
Result<void> begin_signs(const at::Tensor& values, const CodePlace& to);
/// `channels` rows, each with its scale (Int8, Uint8).
Result<void> begin_int8(const at::Tensor& values, std::uint64_t channels, const CodePlace& to);
Result<void> begin_uint8(const at::Tensor& values, std::uint64_t channels, const CodePlace& to);
/// Natural.
Result<void> begin_natural(const at::Tensor& values, const RandomKey& key, const CodePlace& to);
/// The buckets of Qsgd, without the head of the code.
Result<void> begin_levels(const at::Tensor& values, const RandomKey& key, unsigned bits, std::uint64_t bucket,
                          const CodePlace& to);
/// TernGrad, given the size at which entries are clipped and the scale. All values are finite.
Result<void> begin_trits(const at::Tensor& values, const RandomKey& key, float limit, float scale, const CodePlace& to);

// Of one tensor, for whose code each waits: it fills `code`, in the host's memory. False, with a meaningless `code`, if
// a value that was read is NaN or infinite.

Result<bool> all_finite(const at::Tensor& values);

/// The largest magnitude().
Result<std::uint32_t> largest_magnitude(const at::Tensor& values);

/// The entries as they are.
Result<bool> write_entries(const at::Tensor& values, std::span<std::byte> code);

/// A share of each entry, rounded (quantizers/cast.hpp). Number is Half or BFloat16.
template <class Number>
Result<bool> write_rounded(const at::Tensor& values, float share, std::span<std::byte> code);

// What the code of a whole tensor adds to one on a device, with the bits of the twins: sum += weight * decoded `code`.
// Codes are sound, as their quantizers have found on the host (Quantizer::check), and are brought up as they are.

/// What signs stand for (SignVote, TwoValues).
Result<void> add_by_sign(BytesView bits, float positive, float negative, at::Tensor& sum);
Result<void> add_int8(BytesView code, std::uint64_t channels, float weight, at::Tensor& sum);
Result<void> add_uint8(BytesView code, std::uint64_t channels, float weight, at::Tensor& sum);
Result<void> add_natural(BytesView code, float weight, at::Tensor& sum);
/// Without the head of the code.
Result<void> add_levels(BytesView buckets, unsigned bits, std::uint64_t bucket, float weight, at::Tensor& sum);
Result<void> add_trits(BytesView code, float weight, at::Tensor& sum);
/// Numbers of 16 bits, for which it waits: false, with a meaningless sum, if one is NaN or infinite. Number is Half or
/// BFloat16.
template <class Number>
Result<bool> add_rounded(BytesView numbers, float weight, at::Tensor& sum);

/// Twin of take_majority(): the votes of all ranks.
Result<void> take_majority(float least, const RandomKey& coins, at::Tensor& votes);

/// The largest magnitude and the sum of squares, as by size_of() of the blocks of 4096 and sum_of_sizes().
Result<Size> magnitude_and_squares(const at::Tensor& values);

/// The norm of each chunk of `chunk` entries, and the entries of some chunks, whose numbers ascend (Chunk).
Result<void> sum_magnitudes(const at::Tensor& values, std::uint64_t chunk, std::span<float> norms);
Result<bool> take_chunks(const at::Tensor& values, std::uint64_t chunk, std::span<const std::uint32_t> chosen,
                         std::span<std::byte> code);

/// One entry of each of as many strata as there is room in `drawn` (RandomK).
Result<bool> draw(const at::Tensor& values, const RandomKey& key, bool is_unbiased, std::span<float> drawn);

/// Every `stride`-th value, brought down.
Result<void> sample(const at::Tensor& values, std::size_t stride, std::vector<float>& sampled);

/// The means of the clusters' buckets, then the packed ids of the entries (Casq).
Result<bool> write_clusters(const at::Tensor& values, const Clusters& clusters, std::uint32_t salt,
                            std::span<std::byte> code);

}  // namespace weir::compressors::device
