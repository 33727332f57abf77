#pragma once

#include <memory>
#include <optional>

#include "compressors/begun.hpp"
#include "compressors/compressor.hpp"
#include "compressors/device/device.hpp"
#include "compressors/device/products.hpp"
#include "compressors/kernels/linear_algebra/low_rank.hpp"
#include "compressors/memories/tensor_store.hpp"
#include "compressors/per_tensor.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// PowerSGD (Vogels, Karimireddy, Jaggi 2019): one step of power iteration on the mean gradient M (dim 0, the rest),
/// which the ranks compute together. Both factors are linear in the gradient, so an all-reduce sums them:
///
///     P = sum of M_i Q;   P is orthonormalised;   Q = sum of M_i^T P;   mean = P Q^T / world
///
/// With warm_start, the Q of a round is the start of the next one. The very first start, and any column of Q that has
/// become zero, is seeded Gaussian noise, the same on all ranks. A tensor is sent as it is if it has fewer than two
/// dimensions, or if its factors would be less than min_compression_rate times smaller than the tensor. In the first
/// start_step steps of a training gradients go dense, because fast changing gradients are approximated worst (PyTorch:
/// start_powerSGD_iter).
///
/// Wire: bare floats. Pass 0: `rank` columns of P, each as long as the matrix has rows; nothing for a tensor that is
/// sent as it is. Pass 1: `rank` columns of Q, each as long as the matrix has columns; or the tensor.
///
/// Biased: a projection, so the error is never larger than the encoded tensor. Factors that leave the range of float
/// saturate. Steps: two all-reduces.
class PowerSgd final : public Compressor {
 public:
  static constexpr std::string_view type_name = "powersgd";
  static constexpr std::string_view summary = "A low-rank approximation of the mean, by one shared power iteration.";
  static constexpr std::string_view default_memory = "powersgd";

  struct Options {
    std::int64_t rank = 2;
    double min_compression_rate = 2;
    bool warm_start = true;
    std::int64_t start_step = 10;
  };
  static protocol::Params<Options> params();
  explicit PowerSgd(Options options) : options_(options) {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override;
  std::uint64_t vector_entries_min() const override { return never_vectors; }
  double error_bound(std::uint64_t, const Round&) const override { return 1; }
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  bool decodes_on(at::Device device) const override { return codes_on(device); }
  /// Those of both factors, of which only one grows with the rows of the tensor. Of a tensor that would be sent as it
  /// is: that it goes dense, so that no memory keeps a residual for it.
  std::optional<WireBits> expected_bits(at::IntArrayRef sizes, const Round& round) const override;
  WarmupLength warmup_length(const TrainingCourse&) const override { return {.rounds = start_step()}; }
  /// Fails with: malformed (wrong number of values, or not finite), invalid_argument (nothing was encoded).
  Result<void> absorb(std::span<const BytesView> results, const Round& round) override;
  std::vector<NamedTensor> save() const override;
  Result<void> restore(std::span<const NamedTensor> state) override;

 protected:
  Result<void> do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) override;
  bool wants_dense(const Round& round) const override { return round.step < start_step(); }
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;

 private:
  /// The state of a tensor, apart from the Q that is saved.
  struct Progress {
    std::optional<MatrixShape> shape;  ///< nothing: sent as it is
    std::vector<float> left;           ///< P of this round, orthonormal
    std::optional<at::Tensor> before;  ///< the Q from which `step` started, so that it can be repeated
    std::optional<std::uint64_t> step;
  };

  /// A factor of a tensor of a bucket, on its way from a device.
  struct Coming {
    std::shared_ptr<const device::Products> products;
    std::size_t index = 0;
  };

  /// Appends a tensor that is sent as it is: all of it in the last pass.
  static Result<void> encode_whole(const at::Tensor& gradient, const Round& round, Bytes& out);
  /// The matrix shape in which a tensor is compressed; nothing if it is sent as it is.
  std::optional<MatrixShape> shape_of(at::IntArrayRef sizes) const;
  std::optional<at::Tensor> last_right(const Progress& progress, const Round& round) const;
  /// Fills start_ with the Q from which the round starts.
  void start(const Progress& progress, const Round& round);
  /// Keeps the Q with which the round ends, in the memory of one that is no longer needed.
  void put_right(Progress& progress, const Round& round, std::span<const float> right);
  std::uint64_t start_step() const { return static_cast<std::uint64_t>(options_.start_step); }
  std::size_t rank() const { return static_cast<std::size_t>(options_.rank); }

  Options options_;
  PerTensor<Progress> progress_;
  Begun<Coming> begun_;
  TensorStore rights_{"right"};
  // Kept between calls to reuse their memory.
  std::vector<float> start_;   // of do_encode()
  std::vector<float> noise_;   // likewise
  std::vector<float> factor_;  // likewise
  std::vector<float> sum_;     // of absorb()
  std::vector<float> read_;    // of do_decode_add()
};

}  // namespace weir::compressors
