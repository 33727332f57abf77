#pragma once

#include <cstdint>
#include <vector>

#include "training/exchange/coded_round.hpp"
#include "training/exchange/owner.hpp"

namespace weir::training {

/// A round in which each of the first `owners` ranks owns a share of the bucket: it receives what all ranks have
/// encoded of it, encodes the mean again and sends that to all. A rank then sends two payloads, however many ranks
/// there are. For compressors that fit (Traits::fits_owners).
class OwnersRound final : public CodedRound {
 public:
  OwnersRound(const RoundSetting& setting, const Bucket& bucket, std::uint32_t owners, std::uint32_t first_piece);

  std::span<const BytesView> outgoing() override;
  Result<void> combine() override;
  Result<void> encode_combined() override;
  BytesView combined() const override { return combined_; }

  void save(std::vector<NamedTensor>& state) const override { owner_.save(state); }
  Result<void> restore(std::span<const NamedTensor> state) override { return owner_.restore(state); }

 private:
  Result<void> combine(const CodedPiece& coded);
  void take_own_entries(const CodedPiece& coded);
  void hand_over(std::size_t piece, const compressors::Round& round) override;
  Result<void> decode_gathered(std::uint32_t pass) override;
  Result<void> take_from_owner(const CodedPiece& coded);
  Result<void> add(const compressors::Selection& entries, const Piece& piece, Mean& mean, at::Tensor& part);
  compressors::Sent sent_by_pieces(std::span<const CodedPiece> pieces);
  compressors::Round round_back(const Piece& piece) const;

  const std::uint32_t owners_;
  Owner owner_;
  std::vector<at::Tensor> parts_;    ///< by piece: of the mean
  std::vector<BytesView> outgoing_;  ///< by rank
  Bytes combined_;
  compressors::Selection of_parameter_;           ///< entries of a piece, by their positions in the parameter
  std::vector<compressors::SentRows> sent_rows_;  ///< of one tensor
};

}  // namespace weir::training
