#pragma once

#include <nlohmann/json_fwd.hpp>

#include "compressors/compressor.hpp"
#include "compressors/device/device.hpp"
#include "compressors/sparsifiers/sparsifier.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// DeMo (Peng, Quesnelle, Kingma 2024): sends the fast part of a decoupled momentum. Of the cosine coefficients of each
/// block of chunk x chunk entries (transforms/dct.hpp) the per_chunk largest are sent; the mean of what the ranks sent
/// is transformed back to entries, and its sign is what the ranks agree on. With the default memory, `efsignsgd` with
/// beta = 0.999, everything not sent stays in a momentum of steps that each rank keeps for itself:
///
///     m = beta * m + lr * g;   m -= q, its largest coefficients;   x -= lr * sign(mean of q)
///
/// The memory returns m / lr to encode, and q / lr is sent, so that without the sign x -= lr * (mean of q / lr), which
/// is the mean of q.
///
/// The paper's program divides each coefficient by the number of ranks that sent it. Here the divisor is the number of
/// all ranks, so that a coefficient of a single rank counts for less. The program's sums depend on the order of
/// arrival; these do not. Every tensor is taken; a tensor of one dimension has blocks of 1 x chunk. Blocks have nearly
/// equal sides, whereas the program uses the largest divisor, which can be 1.
///
/// Wire: codecs/sparse.hpp with Format::dct; positions are those of BlockGrid. Biased, and without the sign a
/// contraction: a block loses at most 1 - per_chunk / entries of its squared norm. Steps: all-gather.
class Demo final : public Compressor {
 public:
  static constexpr std::string_view type_name = "demo";
  static constexpr std::string_view summary = "The largest cosine coefficients of each block; the sign of their mean.";
  static constexpr std::string_view default_memory = "efsignsgd";
  static nlohmann::json default_memory_params();

  struct Options {
    std::int64_t chunk = 64;
    std::int64_t per_chunk = 32;
    bool sign = true;
    SparseCodecs codecs = {};
  };
  static protocol::Params<Options> params();
  explicit Demo(Options options) : options_(std::move(options)) {}

  std::string_view name() const override { return type_name; }
  std::uint64_t vector_entries_min() const override { return 0; }
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  bool decodes_on(at::Device device) const override { return codes_on(device); }
  Traits traits() const override { return {.votes = options_.sign, .owns_momentum = true}; }
  Result<void> conclude(at::Tensor& mean, const Round& round) override;
  double error_bound(std::uint64_t entries, const Round& round) const override;

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;

 private:
  /// Fills selection_ with the coefficients to send.
  Result<void> choose(const at::Tensor& gradient, const Round& round);

  Options options_;
  Selection selection_;  // of do_encode(), kept between calls to reuse its memory
  Selection read_;       // of do_decode_add(), likewise
};

}  // namespace weir::compressors
