#pragma once

#include <vector>

#include "compressors/device/device.hpp"
#include "compressors/sparsifiers/sparsifier.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// CocktailSGD (Wang et al., ICML 2023): draws a random 10 % of the entries (the survivors), the same on every rank,
/// and sends the 20 % of largest magnitude among them, with 4-bit values. Positions are counted among the survivors,
/// which takes a third of the bits of positions in the tensor. The draw is that of randomk: one entry of each of
/// ceil(ratio * n) strata, from (seed, step, tensor). Zeros are not sent. Body: Format::survivors in codecs/sparse.hpp.
/// Biased: pair it with a memory. Steps: all-gather.
class Cocktail final : public Compressor {
 public:
  static constexpr std::string_view type_name = "cocktail";
  static constexpr std::string_view summary = "The largest of a random share of the entries, with 4-bit values.";
  static constexpr std::string_view default_memory = "residual";

  struct Options {
    double ratio = 0.1;
    double top = 0.2;
    SparseCodecs codecs = {.index = "auto", .value = "int4"};
  };
  static protocol::Params<Options> params();
  explicit Cocktail(Options options) : options_(std::move(options)) {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.sparse = true, .selects = true}; }
  Result<void> read_entries(BytesView payload, const Round& round, std::uint64_t entries,
                            Selection& out) const override;
  /// Positions in a part are not counted among the survivors.
  void write_part(Selection& chosen, std::uint32_t entries, Bytes& out) override;
  Result<void> read_part(BytesView payload, std::uint32_t entries, Selection& out) override;
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  double error_bound(std::uint64_t entries, const Round& round) const override;
  std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const override;

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_select(const at::Tensor& gradient, const Round& round, Selection& chosen) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;

 private:
  /// Fills `chosen` with the largest survivors, whose positions are counted among these.
  Result<void> choose(const at::Tensor& gradient, const Round& round, Selection& chosen);
  /// Fill survivors_. False if a value is NaN or infinite.
  bool draw_on_host(std::span<const float> values, const Round& round);
  Result<bool> draw_on_device(const at::Tensor& gradient, const Round& round);
  /// Turns positions among the survivors into those in the tensor.
  void place(Selection& selection, const Round& round, std::uint64_t entries) const;

  Options options_;
  Selection selection_;  // of do_encode(), kept between calls to reuse its memory, like the next ones
  Selection read_;       // of do_decode_add()
  std::vector<float> survivors_;
};

}  // namespace weir::compressors
