#include "training/exchange/owners_round.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/flat.hpp"

namespace weir::training {

using compressors::Round;
using compressors::Sent;

OwnersRound::OwnersRound(const RoundSetting& setting, const Bucket& bucket, std::uint32_t owners,
                         std::uint32_t first_piece)
    : CodedRound(setting, bucket, shares_of_owners(setting.parameters, bucket, owners), /*by_owners=*/true,
                 first_piece),
      owners_(owners),
      owner_(setting.compression, setting.parameters, pieces_, setting.rank),
      parts_(pieces_.size()) {}

std::span<const BytesView> OwnersRound::outgoing() {
  outgoing_.assign(setting_.world, {});
  const BytesView all = payload_;
  for (auto first = coded_pieces_.begin(); first != coded_pieces_.end();) {
    const std::uint32_t owner = pieces_[first->piece].owner;
    const auto end = std::find_if(first, coded_pieces_.end(),
                                  [&](const CodedPiece& coded) { return pieces_[coded.piece].owner != owner; });
    outgoing_[owner] = all.subspan(first->begin, std::prev(end)->end - first->begin);
    first = end;
  }
  return outgoing_;
}

Result<void> OwnersRound::combine() {
  if (setting_.rank >= owners_) return {};
  streams_.assign(incoming_.payloads.begin(), incoming_.payloads.end());
  streams_[setting_.rank] = {};
  for (const CodedPiece& coded : coded_pieces_) {
    const Piece& piece = pieces_[coded.piece];
    if (piece.owner != setting_.rank) continue;
    if (auto done = combine(coded); !done) return of_piece(done.error(), piece);
  }
  return expect_all_taken();
}

Result<void> OwnersRound::encode_combined() {
  combined_.clear();
  for (const CodedPiece& coded : coded_pieces_) {
    const Piece& piece = pieces_[coded.piece];
    if (piece.owner != setting_.rank) continue;
    if (auto done = owner_.encode(coded.piece, round_back(piece), combined_); !done) {
      return of_piece(done.error(), piece);
    }
  }
  return {};
}

/// Averages a piece over all ranks.
Result<void> OwnersRound::combine(const CodedPiece& coded) {
  const Round round = round_of(pieces_[coded.piece], last_pass());
  owner_.begin(coded.piece, round);
  results_.resize(setting_.world);
  for (std::uint32_t rank = 0; rank < setting_.world; ++rank) {
    auto payload = rank == round.rank ? own_payload(coded) : compressors::take_payload(streams_[rank]);
    if (!payload) return payload.error().within("rank " + std::to_string(rank));
    results_[rank] = *payload;
  }
  const bool sparse = compressor().traits().sparse;
  if (sparse) take_own_entries(coded);
  const GatheredMean::Payloads payloads{.of_ranks = results_,
                                        .round = round,
                                        .share = 1 / static_cast<float>(setting_.world),
                                        .sent = sparse ? &entries_ : nullptr};
  return setting_.gathered_mean.add(compressor(), payloads, owner_.mean(coded.piece));
}

/// Leaves in entries_ what this rank has sent of a piece.
void OwnersRound::take_own_entries(const CodedPiece& coded) {
  const auto& [positions, values] = own_entries_[coded.coded];
  const auto first = static_cast<std::uint32_t>(pieces_[coded.piece].first_entry);
  entries_.resize(coded.entries_end - coded.entries_begin);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_.positions[i] = positions[coded.entries_begin + i] - first;
    entries_.values[i] = values[coded.entries_begin + i];
  }
}

Result<void> OwnersRound::decode_gathered(std::uint32_t /*pass*/) {
  return decode_from_owners([this](const CodedPiece& coded) { return take_from_owner(coded); },
                            [this](std::span<const CodedPiece> pieces) { return sent_by_pieces(pieces); });
}

void OwnersRound::hand_over(std::size_t piece, const Round& round) {
  owner_.hand_over(piece, *setting_.compression.memory, round);
}

/// Puts what the owner of a piece has made of it into the mean.
Result<void> OwnersRound::take_from_owner(const CodedPiece& coded) {
  const Piece& piece = pieces_[coded.piece];
  Mean& mean = mean_of(piece.parameter);
  at::Tensor part = piece.of(mean.tensor, parts_[coded.piece]);
  const Round round = round_back(piece);
  auto payload = compressors::take_payload(streams_[piece.owner]);
  if (!payload) return payload.error();
  const bool own = piece.owner == setting_.rank;
  if (!compressor().traits().sparse) {
    if (auto added = compressor().decode_add(*payload, round, 1, part); !added) return added;
  } else {
    auto read = own ? Result<void>() : compressor().read_entries(*payload, round, piece.entries, entries_);
    if (!read) return read;
    if (auto added = add(own ? owner_.entries(coded.piece) : entries_, piece, mean, part); !added) return added;
  }
  return own ? owner_.take(coded.piece, *payload, round) : Result<void>();
}

/// Adds the entries of a piece to the mean; `part` is that of the piece.
Result<void> OwnersRound::add(const compressors::Selection& entries, const Piece& piece, Mean& mean, at::Tensor& part) {
  if (mean.is_there()) {
    of_parameter_.clear();
    append_entries(entries, piece.first_entry, of_parameter_);
    const EntriesForMean all{{&of_parameter_}, &mean};
    return add_there(1, std::span(&all, 1));
  }
  add_selection(1, entries, compressors::flat(part));
  if (mean.sparse) append_positions(entries, piece.first_entry, mean);
  return {};
}

/// What this rank has sent of one tensor.
Sent OwnersRound::sent_by_pieces(std::span<const CodedPiece> pieces) {
  if (compressor().traits().sparse) return Sent(own_entries_[pieces.front().coded]);
  sent_rows_.clear();
  for (const CodedPiece& coded : pieces) {
    const Piece& piece = pieces_[coded.piece];
    sent_rows_.push_back({.payload = own_payload(coded),
                          .round = round_of(piece, last_pass()),
                          .first = piece.first_row,
                          .count = piece.rows});
  }
  return Sent(compressor(), sent_rows_);
}

/// Of the way back from the owner, which draws other random numbers than it did as one of the ranks.
Round OwnersRound::round_back(const Piece& piece) const {
  Round round = round_of(piece, last_pass());
  round.rank = setting_.world + piece.owner;
  return round;
}

}  // namespace weir::training
