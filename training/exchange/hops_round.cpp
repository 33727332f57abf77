#include "training/exchange/hops_round.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"

namespace weir::training {

using collectives::Hop;
using compressors::flat;
using compressors::Round;
using compressors::Sent;

HopsRound::HopsRound(const RoundSetting& setting, const Bucket& bucket, std::uint32_t first_piece)
    : CodedRound(setting, bucket, shares_of_owners(setting.parameters, bucket, setting.world), /*by_owners=*/true,
                 first_piece),
      sums_(setting.compression, setting.parameters, pieces_, std::nullopt),
      parts_(pieces_.size()) {}

Result<void> HopsRound::encode_compensated(std::uint32_t /*pass*/) {
  const float share = 1 / static_cast<float>(setting_.world);
  for (const CodedPiece& coded : coded_pieces_) {
    sums_.begin(coded.piece, round_by(setting_.rank, pieces_[coded.piece]));
    const at::Tensor own = pieces_[coded.piece].of(compensated_[coded.coded], views_[coded.piece]);
    compressors::add_scaled(share, std::as_bytes(flat(own)), flat(sums_.mean(coded.piece).tensor));
  }
  payload_.clear();
  hop_begin_ = 0;
  ends_.assign(parameters_.size(), 0);
  return hops() > 0 ? encode_hop(0) : Result<void>();
}

Result<void> HopsRound::encode_hop(std::uint32_t number) {
  const Hop hop = hop_of(number);
  hop_begin_ = payload_.size();
  ends_.assign(parameters_.size(), 0);
  for (CodedPiece& coded : coded_pieces_) {
    const Piece& piece = pieces_[coded.piece];
    if (!hop.gives(piece.owner)) continue;
    coded.begin = payload_.size();
    auto encoded = sums_.encode(coded.piece, round_by(setting_.rank, piece), payload_);
    if (!encoded) return of_piece(encoded.error(), piece);
    coded.end = payload_.size();
    ends_[coded.coded] += coded.end - coded.begin;
  }
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  return {};
}

Result<void> HopsRound::add_hop(std::uint32_t number) {
  const Hop hop = hop_of(number);
  const std::string of_partner = "rank " + std::to_string(hop.partner);
  BytesView stream = incoming_.payloads[hop.partner];
  for (const CodedPiece& coded : coded_pieces_) {
    const Piece& piece = pieces_[coded.piece];
    if (!hop.keeps(piece.owner)) continue;
    const auto payload = compressors::take_payload(stream);
    if (!payload) return of_piece(payload.error().within(of_partner), piece);
    auto added = compressor().decode_add(*payload, round_by(hop.partner, piece), 1, sums_.mean(coded.piece).tensor);
    if (!added) return of_piece(added.error().within(of_partner), piece);
  }
  if (stream.empty()) return {};
  return Error{Errc::malformed, of_partner + " sent more than the payloads of its bucket"};
}

Result<void> HopsRound::encode_combined() {
  combined_.clear();
  ends_.assign(parameters_.size(), 0);  // of all shares, which come back together
  for (const CodedPiece& coded : coded_pieces_) {
    const Piece& piece = pieces_[coded.piece];
    if (piece.owner != setting_.rank) {
      ends_[coded.coded] += coded.end - coded.begin;
      continue;
    }
    const std::size_t begin = combined_.size();
    auto encoded = sums_.encode(coded.piece, round_by(setting_.rank, piece), combined_);
    if (!encoded) return of_piece(encoded.error(), piece);
    ends_[coded.coded] += combined_.size() - begin;
  }
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  return {};
}

Result<void> HopsRound::decode_gathered(std::uint32_t /*pass*/) {
  auto decoded = decode_from_owners(
      [this](const CodedPiece& coded) { return take_from_owner(coded); },
      [this](std::span<const CodedPiece> pieces) { return Sent(compensated_[pieces.front().coded]); });
  if (!decoded) return decoded;
  // What this rank has left out when it gave pieces away. Nobody waits for that.
  for (const CodedPiece& coded : coded_pieces_) {
    const Piece& piece = pieces_[coded.piece];
    if (piece.owner == setting_.rank) continue;
    if (auto taken = sums_.take(coded.piece, own_payload(coded), round_by(setting_.rank, piece)); !taken) {
      return of_piece(taken.error(), piece);
    }
  }
  return {};
}

/// Puts what the owner of a piece has sent into the mean.
Result<void> HopsRound::take_from_owner(const CodedPiece& coded) {
  const Piece& piece = pieces_[coded.piece];
  const auto payload = compressors::take_payload(streams_[piece.owner]);
  if (!payload) return payload.error();
  at::Tensor part = piece.of(setting_.means[piece.parameter].tensor, parts_[coded.piece]);
  if (auto added = compressor().decode_add(*payload, round_by(piece.owner, piece), 1, part); !added) return added;
  return piece.owner == setting_.rank ? sums_.take(coded.piece, *payload, round_by(piece.owner, piece))
                                      : Result<void>();
}

void HopsRound::hand_over(std::size_t piece, const Round& round) {
  sums_.hand_over(piece, *setting_.compression.memory, round);
}

/// Of what `rank` encodes of a piece.
Round HopsRound::round_by(std::uint32_t rank, const Piece& piece) const {
  Round round = round_of(piece, last_pass());
  round.rank = rank;
  return round;
}

}  // namespace weir::training
