#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/topologies/multi_hop.hpp"
#include "training/exchange/coded_round.hpp"
#include "training/exchange/owner.hpp"

namespace weir::training {

/// A round in which sums are encoded anew at every hop of a recursive halving (collectives::MultiHop), as in DynamiQ
/// (2026). Each of the ranks, a power of two, owns a share of the bucket. A rank begins with its part of the mean, its
/// own gradients by the number of ranks. In each hop it encodes what it gives away, and adds what it receives to what
/// it keeps. In the end it has the mean of its share, encodes it and sends it to all. For compressors that fit
/// (compressors::no_hops).
///
/// A rank encodes each piece once in a round, in the hop in which it gives it away or as its owner, so that the piece
/// and the rank tell all encodings apart, in random draws, too. What encoding leaves out of a piece the rank keeps and
/// adds the next time (Owner). All of a rank's own gradient goes into the sums: to its memory all of it has been sent.
class HopsRound final : public CodedRound {
 public:
  HopsRound(const RoundSetting& setting, const Bucket& bucket, std::uint32_t first_piece);

  bool by_hops() const override { return true; }
  std::uint32_t hops() const override { return collectives::MultiHop::hop_count(setting_.world); }
  std::uint32_t partner(std::uint32_t hop) const override { return hop_of(hop).partner; }
  Result<void> encode_hop(std::uint32_t hop) override;
  BytesView hop_payload() const override { return BytesView(payload_).subspan(hop_begin_); }
  Result<void> add_hop(std::uint32_t hop) override;

  Result<void> encode_combined() override;
  BytesView combined() const override { return combined_; }

  void save(std::vector<NamedTensor>& state) const override { sums_.save(state); }
  Result<void> restore(std::span<const NamedTensor> state) override { return sums_.restore(state); }

 private:
  collectives::Hop hop_of(std::uint32_t number) const {
    return collectives::MultiHop::hop(setting_.rank, setting_.world, number);
  }
  Result<void> encode_compensated(std::uint32_t pass) override;
  void hand_over(std::size_t piece, const compressors::Round& round) override;
  Result<void> decode_gathered(std::uint32_t pass) override;
  Result<void> take_from_owner(const CodedPiece& coded);
  compressors::Round round_by(std::uint32_t rank, const Piece& piece) const;

  Owner sums_;                     ///< of all pieces, divided by the number of ranks
  std::vector<at::Tensor> parts_;  ///< by piece: of the mean
  std::size_t hop_begin_ = 0;      ///< of the last hop's payloads in payload_, which has those of all hops
  Bytes combined_;
};

}  // namespace weir::training
