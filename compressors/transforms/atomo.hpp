#pragma once

#include "compressors/compressor.hpp"
#include "compressors/device/device.hpp"
#include "compressors/kernels/linear_algebra/low_rank.hpp"
#include "compressors/transforms/atoms.hpp"
#include "compressors/transforms/dct.hpp"
#include "compressors/values.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// ATOMO (Wang et al. 2018): the gradient is a sum of orthogonal atoms. Each atom is drawn independently with a
/// probability p and sent divided by p. The probabilities are those of least variance that send `budget` atoms on
/// average (transforms/water_filling.hpp). `atoms` selects the decomposition:
///
/// svd: the outer products u_i (u_i^T G) of the matrix (dim 0, the rest), oriented with G's smaller side first, where
/// the u_i are the eigenvectors of G G^T: its singular vectors. They are orthogonal however precise they are, so the
/// atoms add up to G, and they are drawn first; u_i^T G is computed only for those drawn. A tensor of fewer than two
/// dimensions is a single row, thus one atom, and sent whole; so is every matrix whose smaller side is within the
/// budget. Wire: Format::low_rank. Takes m^2 n + m^3 operations for a matrix of m x n, m <= n.
///
/// entrywise: the entries, of which ratio * n are sent. Wire: Format::balanced.
///
/// dct: the cosine coefficients of blocks of 64 x 64 (transforms/dct.hpp), of which ratio * n are sent. Wire:
/// Format::balanced.
///
/// With quantize_bits, factors and large values are also rounded at random (transforms/rounded.hpp). Unbiased; without
/// that rounding, the mean square of the error is at most (atoms / budget - 1) times the squared norm of the gradient.
/// Values that leave the range of float saturate. The last bits of svd payloads depend on the machine's LAPACK, and of
/// gradients that are encoded on a device on that one's libraries. Steps: all-gather.
class Atomo final : public Compressor {
 public:
  static constexpr std::string_view type_name = "atomo";
  static constexpr std::string_view summary =
      "Random singular vectors, entries or cosines, unbiased, of least variance.";
  static constexpr std::string_view default_memory = "none";

  struct Options {
    std::string atoms = "svd";
    double budget = 3;
    double ratio = 0.01;
    std::int64_t quantize_bits = 0;
  };
  static protocol::Params<Options> params();
  explicit Atomo(Options options) : options_(std::move(options)) {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.biased = false, .exact_on_devices = options_.atoms != "svd"}; }
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  bool decodes_on(at::Device device) const override { return codes_on(device); }
  /// A vector is one singular vector.
  std::uint64_t vector_entries_min() const override {
    return options_.atoms == "svd" ? never_vectors : Compressor::vector_entries_min();
  }
  double error_bound(std::uint64_t entries, const Round& round) const override;
  /// Only svd has an expected size: it sends as many singular vectors as the budget says. How entries and cosines are
  /// written depends on their magnitudes.
  std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const override;

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;

 private:
  Result<void> encode_products(const at::Tensor& gradient, const Round& round, Bytes& out);
  Result<void> encode_values(const at::Tensor& gradient, const Round& round, Bytes& out);
  // Draw from a tensor that is not empty, to drawn_. Return false if a value is NaN or infinite.
  Result<bool> draw_entries(const at::Tensor& gradient, const RandomKey& key);
  Result<bool> draw_cosines(const at::Tensor& gradient, const RandomKey& key);
  Result<bool> draw(const Values& values, const RandomKey& key, float level_max);
  double values_sent(std::uint64_t entries) const;
  unsigned bits() const { return static_cast<unsigned>(options_.quantize_bits); }

  Options options_;
  // Kept between calls to reuse their memory. Of encode_products():
  std::vector<float> lengths_;
  std::vector<double> factors_;
  std::vector<std::uint32_t> words_;
  std::vector<std::int64_t> drawn_rows_;
  OuterProducts sent_;
  // Of encode_values():
  std::vector<float> coefficients_;
  DrawnValues drawn_;
  // Of do_decode_add():
  OuterProducts products_read_;
  DrawnValues values_read_;
};

}  // namespace weir::compressors
