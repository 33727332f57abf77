#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/buckets.hpp"
#include "compressors/catalog.hpp"
#include "exchange_cases.hpp"

namespace weir::actors::testing {

/// By position in the model.
using Tensors = std::vector<at::Tensor>;

/// What a rank sent of a tensor in the last pass of a round.
struct Sent {
  compressors::Compressor& compressor;
  BytesView payload;
  compressors::Round round;

  /// tensor += weight * what was sent
  void add_to(at::Tensor& tensor, float weight) const;
  /// One where an entry was sent, zero elsewhere: for compressors that send some entries.
  at::Tensor mask(const at::Tensor& like) const;
};

/// What one rank remembers, said once more in plain tensor operations: see the memory of the same name.
class MemoryModel {
 public:
  virtual ~MemoryModel() = default;
  virtual at::Tensor compensate(const at::Tensor& gradient, const compressors::Round& round) = 0;
  virtual void update(const Sent& sent, at::Tensor& mean) = 0;
  /// What goes into the average in a round in which the tensor goes dense.
  virtual at::Tensor compensate_dense(const at::Tensor& gradient, const compressors::Round& round) {
    return compensate(gradient, round);
  }
  /// What becomes of the average of a dense tensor.
  virtual void average_dense(at::Tensor& /*mean*/, const compressors::Round& /*round*/) {}
};

std::unique_ptr<MemoryModel> memory_model(const ExchangeCase& of);

/// All ranks of an exchange in one loop, with nothing of Exchange and of the memories in it: what the means have to be,
/// bit for bit. Payloads are made and read by compressors of the catalog, one object for each rank.
class ExchangeModel {
 public:
  /// `buckets` matter for the order in which a ring adds up: it cuts the payloads of a bucket, not of a tensor.
  ExchangeModel(const ExchangeCase& of, std::uint32_t ranks, std::span<const Bucket> buckets);

  /// The means that each rank has after a step, given the gradients of each. `round` is the step's: tensor, rank, world
  /// and pass are filled in. `votes` has one for each rank.
  std::vector<Tensors> step(const compressors::Round& round, const std::vector<Tensors>& gradients,
                            const std::vector<float>& votes);

 private:
  struct Rank {
    std::unique_ptr<compressors::Compressor> compressor;
    std::unique_ptr<MemoryModel> memory;
  };

  compressors::Round round_of(compressors::Round round, std::size_t rank, std::uint32_t tensor,
                              std::size_t pass = 0) const;
  /// A dense all-reduce, of gradients or of what the memories make of them.
  void averaged(const std::vector<std::uint32_t>& members, bool compensated, const compressors::Round& round,
                const std::vector<Tensors>& gradients, const std::vector<float>& votes, std::vector<Tensors>& means);
  void coded(const std::vector<std::uint32_t>& members, const compressors::Round& round,
             const std::vector<Tensors>& gradients, std::vector<Tensors>& means);

  std::vector<Rank> ranks_;
  std::vector<Bucket> buckets_;
};

}  // namespace weir::actors::testing
