#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compressors/begun.hpp"
#include "compressors/codecs/sparse.hpp"
#include "compressors/compressor.hpp"
#include "compressors/device/device.hpp"
#include "compressors/device/device_values.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/values.hpp"

namespace weir::compressors {

/// The base class of compressors that send some entries and leave out the rest (codecs/sparse.hpp). A derived class
/// chooses the entries among Values, wherever they lie; this class writes and reads the payload.
class Sparsifier : public Compressor {
 public:
  bool codes_on(at::Device device) const final { return device.is_cpu() || device::has_kernels(device); }
  Result<void> read_entries(BytesView payload, const Round& round, std::uint64_t entries,
                            Selection& out) const override;
  void write_part(Selection& chosen, std::uint32_t entries, Bytes& out) override;
  Result<void> read_part(BytesView payload, std::uint32_t entries, Selection& out) override;
  std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const override;

 protected:
  explicit Sparsifier(SparseCodecs codecs) : codecs_(std::move(codecs)) {}

  /// Asks the device on which the gradients (never empty) lie for what choose() will select of the values of each
  /// first: the same function of Values with the same arguments. By default for nothing. Fails as Values.
  virtual Result<std::vector<device::Selecting>> begin_choice(std::span<const at::Tensor> gradients,
                                                              std::span<const Round> rounds) const;

  /// Fills `out` with the entries of `values` (never empty) to send; `out` is empty before. Fails with:
  /// invalid_argument (NaN or infinity; see non_finite()), and as Values.
  virtual Result<void> choose(const Values& values, const Round& round, Selection& out) = 0;

  /// How many of `entries` entries (at least one) are sent. Nothing if the parameters do not determine it.
  virtual std::optional<std::size_t> expected_count(std::uint64_t entries, const Round& round) const;

  /// The error bound of a compressor whose chosen entries always have `share` of the squared norm; it includes the
  /// rounding error of the value codec.
  double bound_for_share(double share) const;

  Result<void> do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) final;
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) final;
  Result<void> do_select(const at::Tensor& gradient, const Round& round, Selection& chosen) final;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) final;
  Result<void> own_entries(BytesView payload, const Round& round, std::uint64_t entries, Selection& own) final;

 private:
  SparseCodecs codecs_;
  Begun<device::Selecting> begun_;
  Selection selection_;  // of do_encode(), kept between calls to reuse its memory
  Selection read_;       // of do_decode_add(), likewise
};

/// Bits per entry of a tensor of `entries` entries (at least one), if `count` entries with positions below `among` are
/// sent.
double expected_sparse_bits(const SparseCodecs& codecs, std::size_t count, std::uint64_t among, std::uint64_t entries);

/// How many of `entries` entries a ratio keeps: ceil(ratio * entries), and at least one if there are any.
std::size_t entries_kept(double ratio, std::uint64_t entries);

}  // namespace weir::compressors
