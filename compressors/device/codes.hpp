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
    Size size;           ///< of begin_sizes()
  };
  /// Waits for code number i, and copies it to `code`, which has its size. Several threads may read.
  Result<Read> read(std::size_t i, std::span<std::byte> code) const;

 private:
  explicit Codes(std::unique_ptr<Download> down);

  std::unique_ptr<Download> down_;  ///< with a code as each tensor's body
};

/// A tensor that is coded, never empty.
struct ToCode {
  at::Tensor values;
  std::uint64_t channels = 1;  ///< rows, each with a head of its own, where the code has such
  RandomKey key;               ///< of what is drawn at random
  CodePlace to;
};

// Each puts into the stream what writes the codes of some tensors, in as few launches as for one.

/// The signs alone, zeros by coins (SignSgd).
Result<void> begin_votes(std::span<const ToCode> tensors);
/// The signs, zeros as positive, and the sums of the entries of each (TwoValues).
Result<void> begin_signs(std::span<const ToCode> tensors);
/// Rows, each with its scale (Int8, Uint8).
Result<void> begin_int8(std::span<const ToCode> tensors);
Result<void> begin_uint8(std::span<const ToCode> tensors);
/// Natural.
Result<void> begin_natural(std::span<const ToCode> tensors);
/// The buckets of Qsgd, without the head of the code.
Result<void> begin_levels(std::span<const ToCode> tensors, unsigned bits, std::uint64_t bucket);
/// TernGrad. All values are finite.
struct TritScale {
  float limit = 0;  ///< entries are clipped at this size
  float scale = 0;
};
Result<void> begin_trits(std::span<const ToCode> tensors, std::span<const TritScale> scales);
/// No code: the largest magnitude and the sum of squares, as by size_of() of the blocks of 4096 and sum_of_sizes().
Result<void> begin_sizes(std::span<const ToCode> tensors);

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

/// The code of a whole tensor that is added to one on a device: sum += weight * decoded `code`. It is sound, as its
/// quantizer has found on the host (Quantizer::check).
struct ToAdd {
  BytesView code;              ///< without what the host reads of it
  std::uint64_t channels = 1;  ///< as of ToCode
  float weight = 1;            ///< for signs, what one that is not set stands for
  float negative = -1;         ///< for signs, what one that is set stands for
  at::Tensor sum;
};

// Each brings the codes up together, as they are, and adds them with the bits of the twins. The sums are of different
// tensors.

/// What signs stand for (SignVote, TwoValues).
Result<void> add_by_sign(std::span<const ToAdd> codes);
Result<void> add_int8(std::span<const ToAdd> codes);
Result<void> add_uint8(std::span<const ToAdd> codes);
Result<void> add_natural(std::span<const ToAdd> codes);
Result<void> add_levels(std::span<const ToAdd> codes, unsigned bits, std::uint64_t bucket);
Result<void> add_trits(std::span<const ToAdd> codes);
/// Numbers of 16 bits, for which it waits: false, with a meaningless sum, if one is NaN or infinite. Number is Half or
/// BFloat16.
template <class Number>
Result<bool> add_rounded(BytesView numbers, float weight, at::Tensor& sum);

/// Twin of take_majority(): the votes of all ranks for each tensor, with the key of its coins.
Result<void> take_majority(float least, std::span<const RandomKey> coins, std::span<const at::Tensor> votes);

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
/// sum += weight * what such means and packed ids stand for.
Result<void> add_clusters(BytesView ids, std::span<const float> means, const Clusters& clusters, std::uint32_t salt,
                          float weight, at::Tensor& sum);

}  // namespace weir::compressors::device
