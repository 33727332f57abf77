#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compressors/compressor.hpp"
#include "compressors/device/device.hpp"
#include "compressors/kernels/sketching/clusters.hpp"
#include "compressors/per_tensor.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// Cluster-aware sketches (Ge et al., CLUSTER 2021; its code calls the method LSS). The entries are divided into a few
/// clusters by sign and magnitude, and each cluster has a table of buckets to which its entries are hashed; an entry is
/// decoded to the mean of its bucket. A tensor of at most 1000 entries is sent as it is. Biased: pair it with a memory.
/// Steps: two all-gathers, the first of a few dozen bytes.
///
/// In the first pass one rank proposes clusters (train_clusters()), which all ranks adopt; the others send an empty
/// proposal. The tables of all ranks thus have the same buckets and can be merged (ClusterTable::merge). As in the
/// authors' program this happens every ten steps (`train_every`); in between all ranks keep their clusters. The ranks
/// take turns, and each tensor begins with a different rank. While a tensor has no clusters, because the proposing rank
/// saw only zeros, the turn passes on at every step. The hash is salted by seed, step and tensor, so that entries that
/// share a bucket in one round do not always share one. A large tensor is hashed segment by segment, each to its own
/// part of every table, so that the buckets of a segment fit in the first-level cache.
///
/// Wire format of the body (Format::clusters):
///
///     u8      0: every entry, 1: tables and ids, 2: clusters (first pass)
///     varint  entries of the tensor
///
///     0:  f32[]     the entries
///     1:  u8        bits of an id, 1 to 4
///         u32       salt
///         varint[]  buckets of each cluster, in the order of ids; at least one per segment
///                   (kernels/sketching/clusters.hpp)
///         f32[]     means of the buckets, cluster by cluster, none with the opposite sign
///         ...       an id for each entry, packed
///     2:  u8        bits of an id, or 0: no clusters, and the body ends here
///         varint[]  buckets of each cluster
///         f32[]     thresholds of the positive clusters, then of the negative ones
class Casq final : public Compressor {
 public:
  static constexpr std::string_view type_name = "casq";
  static constexpr std::string_view summary =
      "Every entry as the mean of a hashed bucket among those of its sign and size.";
  static constexpr std::string_view default_memory = "residual";
  static constexpr std::size_t raw_entries_max = 1000;

  struct Options {
    std::int64_t bits = 2;
    double budget = 0.01;
    std::int64_t train_every = 10;
  };
  static protocol::Params<Options> params();
  explicit Casq(Options options) : options_(options) {}

  std::string_view name() const override { return type_name; }
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  bool decodes_on(at::Device device) const override { return codes_on(device); }
  Traits traits() const override {
    return {.passes = {Reduction::gather, Reduction::gather}, .stateful = true, .begins_anew = true};
  }
  /// The entries of a small tensor; otherwise ids, and at most the tables that `budget` allows.
  std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const override;
  Result<void> absorb(std::span<const BytesView> results, const Round& round) override;
  /// Replacing entries by the means of their buckets is an orthogonal projection, so |x - y|^2 = |x|^2 - |y|^2. The
  /// entries of a bucket have one sign: m of them with mean a have m a^2 = (sum |x|)^2 / m >= (sum x^2) / m, so that
  /// |y|^2 >= |x|^2 / n, less the error of rounding the means to floats (2^-48 of it). Equality holds if all of x is in
  /// one bucket and only one entry is not zero.
  double error_bound(std::uint64_t entries, const Round& round) const override;
  std::vector<NamedTensor> save() const override;
  Result<void> restore(std::span<const NamedTensor> state) override;

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;

 private:
  /// The clusters that the ranks agreed on for a tensor, and its number of entries.
  struct Agreed {
    std::uint64_t entries = 0;
    std::optional<Clusters> clusters = std::nullopt;  ///< nothing: no rank has proposed any yet
  };

  /// The rank that proposes clusters in this round, if is_to_train().
  std::uint32_t trainer(const Round& round) const;
  bool is_to_train(std::uint64_t entries, const Round& round) const;
  Result<void> propose(const at::Tensor& gradient, const Round& round, Bytes& out);
  Result<void> write_raw(const at::Tensor& gradient, const Round& round, Bytes& out);
  Clusters clusters_of(const Agreed& agreed) const;
  Result<void> write_tables(const at::Tensor& gradient, const Round& round, Bytes& out);
  /// Fills `code` with the means of all buckets, then the packed ids of the entries. Returns false if a value is NaN or
  /// infinite.
  bool write_code(std::span<const float> values, const Clusters& clusters, std::uint32_t salt,
                  std::span<std::byte> code);

  Options options_;
  PerTensor<Agreed> agreed_;
  // Kept between calls to reuse their memory.
  Bytes body_;                 // of do_encode()
  ClusterTable table_;         // likewise
  std::vector<float> sample_;  // likewise: of a tensor on a device
  std::vector<float> read_;    // of do_decode_add(): means, or entries
};

}  // namespace weir::compressors
