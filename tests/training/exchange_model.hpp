#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/topologies/catalog.hpp"
#include "compressors/catalog.hpp"
#include "exchange_cases.hpp"
#include "split_model.hpp"
#include "training/exchange/buckets.hpp"

namespace weir::training::testing {

/// Tensors by position in the model.
using Tensors = std::vector<at::Tensor>;

/// A payload of some rows of a tensor, and the round in which they were encoded.
struct SentRows {
  Bytes payload;
  compressors::Round round;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// What a rank sent for a tensor in the last pass of a round: payloads, or, by the owners of regions, entries.
struct Sent {
  compressors::Compressor& compressor;
  compressors::Round round;
  std::vector<SentRows> parts;
  Entries entries = {};
  Entries corrections = {};  ///< count as sent, too, but not as positions
  at::Tensor all = {};       ///< everything, as it was

  /// tensor += weight * decoded payload
  void add_to(at::Tensor& tensor, float weight) const;
  /// One where an entry was sent, zero elsewhere. For compressors that send some entries.
  at::Tensor mask(const at::Tensor& like) const;
};

/// A second implementation of a memory, in plain tensor operations: see the memory of the same name.
class MemoryModel {
 public:
  virtual ~MemoryModel() = default;
  virtual at::Tensor compensate(const at::Tensor& gradient, const compressors::Round& round) = 0;
  virtual void update(const Sent& sent, at::Tensor& mean) = 0;
  /// The tensor that is averaged in a round in which the tensor goes dense.
  virtual at::Tensor compensate_dense(const at::Tensor& gradient, const compressors::Round& round) {
    return compensate(gradient, round);
  }
  /// Turns the average of a dense tensor into what the optimizer applies.
  virtual void average_dense(at::Tensor& /*mean*/, const compressors::Round& /*round*/) {}
};

std::unique_ptr<MemoryModel> memory_model(const ExchangeCase& of);

/// Computes in one loop what the means of all ranks must be, bit for bit, without using Exchange and the memories.
/// Payloads are encoded and decoded by compressors of the catalog, one object per rank.
class ExchangeModel {
 public:
  /// `buckets` and `topology` matter for the order of additions: a topology divides the payloads of a bucket into
  /// chunks, not those of a tensor. The ring's order is computed here; that of others is asked of the topology itself.
  /// `ranks_per_host`: at most 2.
  ExchangeModel(const ExchangeCase& of, std::uint32_t ranks, std::span<const Bucket> buckets,
                collectives::TopologyChoice topology, std::uint32_t ranks_per_host = 1);

  /// Returns the means on each rank after a step with the given gradients of each rank. `round` is the step's round:
  /// tensor, rank, world and pass are filled in. `votes` has one vote per rank.
  std::vector<Tensors> step(const compressors::Round& round, const std::vector<Tensors>& gradients,
                            const std::vector<float>& votes);

 private:
  struct Rank {
    std::unique_ptr<compressors::Compressor> compressor;
    std::unique_ptr<MemoryModel> memory;
  };

  compressors::Round round_of(compressors::Round round, std::size_t rank, std::uint32_t tensor,
                              std::size_t pass = 0) const;
  /// A dense all-reduce of the gradients, or, if `compensated`, of the tensors that the memories make of them.
  void averaged(const std::vector<std::uint32_t>& members, bool compensated, const compressors::Round& round,
                const std::vector<Tensors>& gradients, const std::vector<float>& votes, std::vector<Tensors>& means);
  void coded(const std::vector<std::uint32_t>& members, const compressors::Round& round,
             const std::vector<Tensors>& gradients, std::vector<Tensors>& means);

  /// Rows of a tensor that a rank owns, and the number that stands for them in random draws.
  struct Share {
    std::size_t owner = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::uint32_t id = 0;
  };
  /// Which rows of the bucket's tensors belong to whom.
  std::map<std::uint32_t, std::vector<Share>> shares_of(const Bucket& bucket, const Tensors& like,
                                                        std::uint32_t first_id) const;
  void by_owners(const std::vector<std::uint32_t>& members, const std::map<std::uint32_t, std::vector<Share>>& shares,
                 const compressors::Round& round, const std::vector<Tensors>& gradients, std::vector<Tensors>& means);

  void by_hops(const std::vector<std::uint32_t>& members, const std::map<std::uint32_t, std::vector<Share>>& shares,
               const compressors::Round& round, const std::vector<Tensors>& gradients, std::vector<Tensors>& means);
  float change_of_unit(std::uint32_t share, const compressors::Round& round);
  at::Tensor mean_by_hops(const Share& share, const Tensors& inputs, const compressors::Round& round);

  void by_regions(SplitModel& split, const std::vector<std::uint32_t>& members, const compressors::Round& round,
                  const std::vector<Tensors>& gradients, std::vector<Tensors>& means);

  /// Sums the gradients of each host's ranks and has the hosts exchange these.
  void by_hosts(const compressors::Round& round, const std::vector<Tensors>& gradients, std::vector<Tensors>& means);
  /// Payloads of some rows from all ranks, all passes of the compressor.
  std::vector<SentRows> encoded(const Share& share, const Tensors& inputs, const compressors::Round& round);

  at::Tensor sum_of(const std::vector<at::Tensor>& shares) const;
  /// The sum or the maximum of payloads, one for each rank, as bytes.
  Bytes reduced(std::vector<Bytes>& payloads, compressors::Reduction reduction) const;

  std::vector<Rank> ranks_;
  std::vector<Bucket> buckets_;
  collectives::TopologyChoice topology_;
  std::size_t owners_ = 0;                         ///< of shares; 0: payloads are gathered by all ranks
  bool splits_ = false;                            ///< chosen entries go to the owners of regions
  bool hops_ = false;                              ///< shares come to their owners by hops
  const bool follows_learning_rate_;               ///< what is left out
  std::map<std::uint32_t, Tensors> left_out_;      ///< by hops, by the number of the share: by each rank
  std::map<std::size_t, SplitModel> split_;        ///< by bucket
  std::map<std::uint32_t, at::Tensor> residuals_;  ///< of owners, by the number of their share
  std::map<std::uint32_t, float> rates_;           ///< at which what owners have left out was, by the same number
  const std::uint32_t ranks_per_host_;
  std::unique_ptr<ExchangeModel> hosts_;  ///< in an exchange by hosts, with a rank for each host
};

}  // namespace weir::training::testing
