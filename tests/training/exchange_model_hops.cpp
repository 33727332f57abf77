#include <ATen/ATen.h>

#include "exchange_model.hpp"

namespace weir::training::testing {

using compressors::Round;

/// What a rank has gets into the sums as it is: its memory takes off all of it.
void ExchangeModel::by_hops(const std::vector<std::uint32_t>& members,
                            const std::map<std::uint32_t, std::vector<Share>>& shares, const Round& round,
                            const std::vector<Tensors>& gradients, std::vector<Tensors>& means) {
  const std::size_t ranks = ranks_.size();
  for (const auto tensor : members) {
    Tensors inputs;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      inputs.push_back(ranks_[rank].memory->compensate(gradients[rank][tensor], round_of(round, rank, tensor)));
    }
    at::Tensor agreed = at::zeros_like(gradients[0][tensor]);
    for (const Share& share : shares.at(tensor)) {
      agreed.narrow(0, share.first, share.count).copy_(mean_by_hops(share, inputs, round));
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto& [compressor, memory] = ranks_[rank];
      at::Tensor& mean = means[rank][tensor] = agreed.clone();
      const Round own = round_of(round, rank, tensor);
      memory->update({.compressor = *compressor, .round = own, .parts = {}, .all = inputs[rank]}, mean);
    }
  }
}

/// Of the ranks that have sums of a share, those whose number differs from the owner's in the highest bit that is left
/// give theirs to the one that differs from them in this bit alone.
at::Tensor ExchangeModel::mean_by_hops(const Share& share, const Tensors& inputs, const Round& round) {
  const std::size_t ranks = ranks_.size();
  Tensors& sums = left_out_[share.id];
  sums.resize(ranks);
  const float change = change_of_unit(share.id, round);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const at::Tensor part = inputs[rank].narrow(0, share.first, share.count) / static_cast<double>(ranks);
    sums[rank] = sums[rank].defined() ? sums[rank] * change + part : part;
  }
  const auto encode = [&](std::size_t rank) {
    Bytes payload;
    ranks_[rank].compressor->encode(sums[rank], round_of(round, rank, share.id), payload).value();
    return payload;
  };
  for (std::size_t bit = ranks / 2; bit > 0; bit /= 2) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (((rank ^ share.owner) & ~(bit - 1)) != bit) continue;
      const Bytes payload = encode(rank);
      const Round of_giver = round_of(round, rank, share.id);
      ranks_[rank ^ bit].compressor->decode_add(payload, of_giver, 1, sums[rank ^ bit]).value();
      ranks_[rank].compressor->decode_add(payload, of_giver, -1, sums[rank]).value();
    }
  }
  at::Tensor mean = at::zeros_like(sums[share.owner]);
  const Bytes payload = encode(share.owner);
  ranks_[share.owner].compressor->decode_add(payload, round_of(round, share.owner, share.id), 1, mean).value();
  sums[share.owner] = sums[share.owner] - mean;
  return mean;
}

}  // namespace weir::training::testing
