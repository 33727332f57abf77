#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compressors/compressor.hpp"
#include "compressors/device/device.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/sketches/quantile_groups.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// SketchML (Jiang et al., SIGMOD 2018) on the ceil(ratio * n) entries of largest magnitude; zeros are not sent. The
/// values of each sign are divided into buckets of about equally many entries. Neighbouring buckets form a group, and
/// each group encodes the buckets of its entries in a MinMaxSketch. Unlike in the paper, a bucket is decoded to its
/// least magnitude instead of its middle, and the largest entry of each sign has a bucket and group of its own.
/// Therefore no entry is amplified, none changes its sign, and the largest is sent exactly. Biased: pair it with a
/// memory. Steps: all-gather.
///
/// Wire format of the body (Format::quantile):
///
///     varint  entries of the tensor
///     u8      rows of the sketches
///     varint  groups; then for each
///       varint    buckets, at most 256
///       f32[]     their values: of one sign, magnitudes ascending
///       varint    keys, that is entries sent
///       u8        code of the keys
///       varint    bytes of the keys
///       ...       keys (delta_keys.hpp)
///       varint    columns of the sketch } only for a group with several buckets
///       ...       its cells, packed     } in as many bits as the last bucket's number takes
class SketchMl final : public Compressor {
 public:
  static constexpr std::string_view type_name = "sketchml";
  static constexpr std::string_view summary =
      "The largest entries in quantile buckets, told by small sketches: magnitudes only shrink.";
  static constexpr std::string_view default_memory = "residual";

  struct Options {
    double ratio = 0.01;
    std::int64_t buckets = 256;
    std::int64_t groups = 8;
    std::int64_t rows = 2;
    double columns = 0.3;
  };
  static protocol::Params<Options> params();
  explicit SketchMl(Options options) : options_(options) {}

  std::string_view name() const override { return type_name; }
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  Traits traits() const override { return {.sparse = true, .selects = true}; }
  /// How long a payload is depends on the data. But of wide sketches for many entries, or of a tensor of a few entries,
  /// it may be longer than the tensor itself: then this is the most that it may take.
  std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const override;
  Result<void> read_entries(BytesView payload, const Round& round, std::uint64_t entries,
                            Selection& out) const override;
  void write_part(Selection& chosen, std::uint32_t entries, Bytes& out) override;
  Result<void> read_part(BytesView payload, std::uint32_t entries, Selection& out) override;
  /// A decoded value lies between 0 and the entry, and the largest entry is exact. Its share of the squared norm is at
  /// least 1 / n, so |x - y|^2 <= |x|^2 - max(x^2) <= (1 - 1 / n) |x|^2. No better bound holds for every x, because two
  /// entries of very different size can collide in every row of a sketch.
  double error_bound(std::uint64_t entries, const Round& round) const override;

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_select(const at::Tensor& gradient, const Round& round, Selection& chosen) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;

 private:
  void write(const Selection& selection, std::uint64_t entries, Bytes& out);

  Options options_;
  // Kept between calls to reuse their memory.
  Selection selection_;       // of do_encode()
  QuantileGroups groups_;     // of write()
  std::vector<Bytes> parts_;  // likewise: the code of each group
  Selection read_;            // of do_decode_add()
};

}  // namespace weir::compressors
