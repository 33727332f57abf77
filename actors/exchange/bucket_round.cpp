#include "actors/exchange/bucket_round.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/non_finite.hpp"

namespace weir::actors {
namespace {

using collectives::Buffer;
using collectives::Element;
using collectives::ReduceOp;
using compressors::Reduction;
using compressors::Round;
using compressors::Sent;

/// A gathered payload may be larger than the dense gradient by this factor: at density 1, positions cost as much as
/// values.
constexpr std::size_t payload_growth_max = 2;
constexpr std::size_t payload_slack_bytes = 64 * 1024;

std::span<float> floats_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

/// Makes all entries zero.
void clear(Mean& mean) {
  if (mean.sparse) {
    const auto values = floats_of(mean.tensor);
    for (const auto position : mean.positions) values[position] = 0;
  } else {
    mean.tensor.zero_();
  }
  mean.positions.clear();
}

/// Makes all entries zero before a round of a tensor that is encoded.
void restart(Mean& mean, const compressors::Compression& compression) {
  clear(mean);
  const auto traits = compression.compressor->traits();
  mean.sparse = traits.sparse && !traits.votes && !compression.memory->traits().changes_mean;
}

/// `first`: the place of the entries' tensor in the mean.
void append_positions(const compressors::Selection& entries, std::uint64_t first, Mean& mean) {
  for (const auto position : entries.positions) {
    mean.positions.push_back(static_cast<std::uint32_t>(first + position));
  }
}

void append(const compressors::Selection& entries, std::uint64_t first, compressors::Selection& to) {
  for (const auto position : entries.positions) to.positions.push_back(static_cast<std::uint32_t>(first + position));
  to.values.insert(to.values.end(), entries.values.begin(), entries.values.end());
}

Element element_of(Reduction reduction) {
  if (reduction == Reduction::sum_fp16) return Element::float16;
  if (reduction == Reduction::sum_bf16) return Element::bfloat16;
  return Element::float32;
}

}  // namespace

BucketRound::BucketRound(const RoundSetting& setting, const Bucket& bucket, bool votes, std::uint32_t first_piece)
    : setting_(setting),
      bucket_(bucket),
      with_votes_(votes),
      pieces_(setting.owners > 0 ? shares_of_owners(setting.parameters, bucket, setting.owners)
                                 : whole_parameters(setting.parameters, bucket)),
      first_piece_(first_piece) {
  if (setting.owners > 0 && bucket.coded) {
    owner_.emplace(*setting.compression.compressor, setting.parameters, pieces_, setting.rank);
  }
  std::int64_t entries = 0;
  for (const auto p : bucket.parameters) entries += setting.parameters[p].tensor.numel();
  gathered_.bytes_max = payload_growth_max * static_cast<std::size_t>(entries) * sizeof(float) + payload_slack_bytes;
  incoming_.bytes_max = gathered_.bytes_max;
  if (bucket.coded) return;
  dense_ = at::empty({entries + (votes ? 1 : 0)}, at::kFloat);
  std::int64_t begin = 0;
  for (const auto p : bucket.parameters) {
    const auto& tensor = setting.parameters[p].tensor;
    setting.means[p].tensor = dense_.narrow(0, begin, tensor.numel()).view(tensor.sizes());
    begin += tensor.numel();
  }
}

void BucketRound::begin(const Step& step) {
  step_ = step;
  dense_parameters_.clear();
  coded_parameters_.clear();
  for (const auto p : bucket_.parameters) {
    const bool coded = bucket_.coded && !setting_.compression.compressor->goes_dense(
                                            setting_.parameters[p].tensor.sizes(), round_of(p, 0));
    (coded ? coded_parameters_ : dense_parameters_).push_back(p);
  }
  coded_pieces_.clear();
  for (std::size_t coded = 0, piece = 0; coded < coded_parameters_.size(); ++coded) {
    while (pieces_[piece].parameter != coded_parameters_[coded]) ++piece;
    for (; piece < pieces_.size() && pieces_[piece].parameter == coded_parameters_[coded]; ++piece) {
      coded_pieces_.push_back({.piece = piece, .coded = coded});
    }
  }
  passes_.clear();
  if (!coded_parameters_.empty()) passes_ = setting_.compression.compressor->traits().passes;
  if (!bucket_.coded) return;
  std::int64_t entries = 0;
  for (const auto p : dense_parameters_) entries += setting_.parameters[p].tensor.numel();
  if (!dense_.defined() || dense_.numel() != entries) dense_ = at::empty({entries}, at::kFloat);
}

Buffer BucketRound::dense() { return {std::as_writable_bytes(floats_of(dense_)), Element::float32}; }

Result<void> BucketRound::gather_dense() {
  const float share = 1 / static_cast<float>(setting_.world);
  const auto all = floats_of(dense_);
  std::size_t begin = 0;
  for (const auto p : dense_parameters_) {
    at::Tensor gradient = gradient_of(p);
    if (bucket_.coded) {
      auto compensated = setting_.compression.memory->compensate_dense(gradient, round_of(p, 0));
      if (!compensated) return of_parameter(compensated.error(), p);
      gradient = std::move(*compensated);
    }
    const auto values = floats_of(gradient);
    if (!compressors::copy_scaled(share, values, all.subspan(begin, values.size()))) {
      return of_parameter(compressors::non_finite(round_of(p, 0), values), p);
    }
    begin += values.size();
  }
  if (with_votes_) all.back() = step_.vote;
  return {};
}

Result<void> BucketRound::conclude_dense() {
  const auto all = floats_of(dense_);
  if (with_votes_) votes_sum_ = all.back();
  std::size_t begin = 0;
  for (const auto p : dense_parameters_) {
    Mean& mean = setting_.means[p];
    const auto values = floats_of(mean.tensor);
    if (bucket_.coded) std::ranges::copy(all.subspan(begin, values.size()), values.begin());
    begin += values.size();
    mean.sparse = false;
    auto turned = setting_.compression.memory->average_dense(mean.tensor, round_of(p, 0));
    if (!turned) return turned.error();
  }
  return {};
}

Result<void> BucketRound::encode(std::uint32_t pass) {
  if (pass == 0) {
    compensated_.clear();
    for (const auto p : coded_parameters_) {
      auto compensated = setting_.compression.memory->compensate(gradient_of(p), round_of(p, 0));
      if (!compensated) return of_parameter(compensated.error(), p);
      compensated_.push_back(std::move(*compensated));
    }
  }
  const bool last = pass + 1 == passes_.size();
  const bool sparse = last && setting_.compression.compressor->traits().sparse;
  own_entries_.resize(coded_parameters_.size());
  payload_.clear();
  ends_.assign(coded_parameters_.size(), 0);
  for (CodedPiece& coded : coded_pieces_) {
    if (auto encoded = encode(coded, pass, sparse); !encoded) return of_piece(encoded.error(), pieces_[coded.piece]);
  }
  const bool kept = last && !sparse && setting_.compression.memory->traits().reads_sent;
  own_sums_.clear();
  if (kept && passes_[pass] != Reduction::gather) own_sums_ = payload_;
  return {};
}

Result<void> BucketRound::encode(CodedPiece& coded, std::uint32_t pass, bool sparse) {
  const Piece& piece = pieces_[coded.piece];
  compressors::Selection& own = own_entries_[coded.coded];
  const bool whole = piece.rows == 0;
  coded.begin = payload_.size();
  auto encoded =
      setting_.compression.compressor->encode(piece.of(compensated_[coded.coded]), round_of(piece, pass), payload_,
                                              !sparse ? nullptr
                                              : whole ? &own
                                                      : &entries_);
  coded.end = ends_[coded.coded] = payload_.size();
  if (!encoded || !sparse || whole) return encoded;
  if (piece.first_row == 0) own.clear();
  coded.entries_begin = own.size();
  append(entries_, piece.first_entry, own);
  coded.entries_end = own.size();
  return {};
}

Buffer BucketRound::sums(std::uint32_t pass) { return {std::span(payload_), element_of(passes_[pass])}; }

ReduceOp BucketRound::operation(std::uint32_t pass) const {
  return passes_[pass] == Reduction::max ? ReduceOp::max : ReduceOp::sum;
}

Result<void> BucketRound::decode(std::uint32_t pass) {
  if (passes_[pass] == Reduction::gather && setting_.owners > 0) return decode_from_owners();
  return passes_[pass] == Reduction::gather ? decode_gathered(pass) : decode_sums(pass);
}

Result<void> BucketRound::decode_sums(std::uint32_t pass) {
  for (const CodedPiece& coded : coded_pieces_) {
    const BytesView sum = BytesView(payload_).subspan(coded.begin, coded.end - coded.begin);
    if (auto taken = take(coded.coded, std::span(&sum, 1), pass); !taken) return taken.error();
  }
  return {};
}

Result<void> BucketRound::decode_gathered(std::uint32_t pass) {
  streams_.assign(gathered_.payloads.begin(), gathered_.payloads.end());
  results_.resize(streams_.size());
  for (std::size_t i = 0; i < coded_parameters_.size(); ++i) {
    for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
      auto payload = compressors::take_payload(streams_[rank]);
      if (!payload) return payload.error().within("payload of rank " + std::to_string(rank));
      results_[rank] = *payload;
    }
    if (auto taken = take(i, results_, pass); !taken) return taken.error();
  }
  return expect_all_taken();
}

Result<void> BucketRound::expect_all_taken() const {
  for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
    if (!streams_[rank].empty()) {
      return Error{Errc::malformed, "rank " + std::to_string(rank) + " sent more than the payloads of its bucket"};
    }
  }
  return {};
}

/// Passes the results of a pass for one tensor to the compressor and, in the last pass, makes the mean of them.
Result<void> BucketRound::take(std::size_t coded, std::span<const BytesView> results, std::uint32_t pass) {
  const auto parameter = coded_parameters_[coded];
  auto& compressor = *setting_.compression.compressor;
  const Round round = round_of(parameter, pass);
  if (auto absorbed = compressor.absorb(results, round); !absorbed) return of_parameter(absorbed.error(), parameter);
  if (pass + 1 < passes_.size()) return {};
  if (auto done = average(coded, results, round); !done) return done;
  const bool sparse = compressor.traits().sparse;
  return conclude(coded,
                  sparse ? Sent(own_entries_[coded]) : Sent(compressor, own_payload(coded_pieces_[coded]), round));
}

/// Ends the round of one tensor whose mean is there.
Result<void> BucketRound::conclude(std::size_t coded, const Sent& sent) {
  const auto parameter = coded_parameters_[coded];
  const Round round = round_of(parameter, static_cast<std::uint32_t>(passes_.size() - 1));
  at::Tensor& mean = setting_.means[parameter].tensor;
  setting_.compression.compressor->conclude(mean, round);
  return setting_.compression.memory->update(round, sent, mean);
}

/// Makes the mean of what the ranks sent.
Result<void> BucketRound::average(std::size_t coded, std::span<const BytesView> results, Round round) {
  auto& compressor = *setting_.compression.compressor;
  const auto parameter = coded_parameters_[coded];
  const auto traits = compressor.traits();
  Mean& mean = setting_.means[parameter];
  restart(mean, setting_.compression);
  const float share = 1 / static_cast<float>(setting_.world);
  const bool gathered = passes_.back() == Reduction::gather;
  for (std::uint32_t rank = 0; rank < results.size(); ++rank) {
    if (gathered) round.rank = rank;
    const bool own = rank == round_of(parameter, 0).rank;
    Result<void> added;
    if (!traits.sparse || !gathered) {
      added = compressor.decode_add(results[rank], round, share, mean.tensor);
    } else {
      if (!own) added = compressor.read_entries(results[rank], round, floats_of(mean.tensor).size(), entries_);
      const auto& entries = own ? own_entries_[coded] : entries_;
      if (added) add_selection(share, entries, floats_of(mean.tensor));
      if (added && mean.sparse) append_positions(entries, 0, mean);
    }
    if (!added) return of_parameter(added.error(), parameter).within("rank " + std::to_string(rank));
  }
  if (mean.sparse && !gathered) append_positions(own_entries_[coded], 0, mean);
  return {};
}

BytesView BucketRound::own_payload(const CodedPiece& coded) const {
  const bool summed = passes_.back() != Reduction::gather;
  if (summed && own_sums_.empty()) return {};
  return BytesView(summed ? own_sums_ : payload_).subspan(coded.begin, coded.end - coded.begin);
}

// By owners.

std::span<const BytesView> BucketRound::outgoing() {
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

Result<void> BucketRound::combine() {
  combined_.clear();
  if (setting_.rank >= setting_.owners) return {};
  streams_.assign(incoming_.payloads.begin(), incoming_.payloads.end());
  streams_[setting_.rank] = {};
  for (const CodedPiece& coded : coded_pieces_) {
    const Piece& piece = pieces_[coded.piece];
    if (piece.owner != setting_.rank) continue;
    if (auto done = combine(coded); !done) return of_piece(done.error(), piece);
    if (auto done = owner_->encode(coded.piece, round_back(piece), combined_); !done) {
      return of_piece(done.error(), piece);
    }
  }
  return expect_all_taken();
}

/// Averages a piece over all ranks.
Result<void> BucketRound::combine(const CodedPiece& coded) {
  const float share = 1 / static_cast<float>(setting_.world);
  Round round = round_of(pieces_[coded.piece], 0);
  for (round.rank = 0; round.rank < setting_.world; ++round.rank) {
    const bool own = round.rank == setting_.rank;
    if (own && setting_.compression.compressor->traits().sparse) {
      const auto& entries = own_entries_[coded.coded];
      const bool whole = pieces_[coded.piece].rows == 0;
      const std::size_t begin = whole ? 0 : coded.entries_begin;
      const std::size_t count = whole ? entries.size() : coded.entries_end - begin;
      owner_->add(coded.piece, std::span(entries.positions).subspan(begin, count),
                  std::span(entries.values).subspan(begin, count), share);
      continue;
    }
    auto payload = own ? own_payload(coded) : compressors::take_payload(streams_[round.rank]);
    auto added = payload ? owner_->add(coded.piece, *payload, round, share) : Result<void>(payload.error());
    if (!added) return added.error().within("rank " + std::to_string(round.rank));
  }
  return {};
}

Result<void> BucketRound::decode_from_owners() {
  streams_.assign(gathered_.payloads.begin(), gathered_.payloads.begin() + setting_.owners);
  for (auto first = coded_pieces_.begin(); first != coded_pieces_.end();) {
    const auto end =
        std::find_if(first, coded_pieces_.end(), [&](const CodedPiece& coded) { return coded.coded != first->coded; });
    restart(setting_.means[coded_parameters_[first->coded]], setting_.compression);
    for (auto coded = first; coded != end; ++coded) {
      const Piece& piece = pieces_[coded->piece];
      if (auto taken = take_from_owner(*coded); !taken) {
        return of_piece(taken.error(), piece).within("rank " + std::to_string(piece.owner));
      }
    }
    if (auto done = conclude(first->coded, sent_by_pieces({first, end})); !done) return done;
    first = end;
  }
  return expect_all_taken();
}

/// Puts what the owner of a piece has made of it into the mean.
Result<void> BucketRound::take_from_owner(const CodedPiece& coded) {
  const Piece& piece = pieces_[coded.piece];
  auto& compressor = *setting_.compression.compressor;
  Mean& mean = setting_.means[piece.parameter];
  at::Tensor part = piece.of(mean.tensor);
  const Round round = round_back(piece);
  auto payload = compressors::take_payload(streams_[piece.owner]);
  if (!payload) return payload.error();
  const bool own = piece.owner == setting_.rank;
  if (!compressor.traits().sparse) {
    if (auto added = compressor.decode_add(*payload, round, 1, part); !added) return added;
  } else {
    auto read = own ? Result<void>() : compressor.read_entries(*payload, round, piece.entries, entries_);
    if (!read) return read;
    const auto& entries = own ? owner_->entries(coded.piece) : entries_;
    add_selection(1, entries, floats_of(part));
    if (mean.sparse) append_positions(entries, piece.first_entry, mean);
  }
  if (own) owner_->take(coded.piece, part);
  return {};
}

/// What this rank has sent of one tensor.
Sent BucketRound::sent_by_pieces(std::span<const CodedPiece> pieces) {
  auto& compressor = *setting_.compression.compressor;
  if (compressor.traits().sparse) return Sent(own_entries_[pieces.front().coded]);
  sent_rows_.clear();
  for (const CodedPiece& coded : pieces) {
    const Piece& piece = pieces_[coded.piece];
    sent_rows_.push_back(
        {.payload = own_payload(coded), .round = round_of(piece, 0), .first = piece.first_row, .count = piece.rows});
  }
  return Sent(compressor, sent_rows_);
}

void BucketRound::save(std::vector<NamedTensor>& state) const {
  if (owner_) owner_->save(state);
}

Result<void> BucketRound::restore(std::span<const NamedTensor> state) {
  return owner_ ? owner_->restore(state) : Result<void>();
}

Round BucketRound::round_of(std::uint32_t parameter, std::uint32_t pass) const {
  return {.seed = setting_.seed,
          .step = step_.number,
          .epoch = step_.epoch,
          .epochs_total = setting_.epochs_total,
          .learning_rate = step_.learning_rate,
          .tensor = parameter,
          .rank = setting_.rank,
          .world = setting_.world,
          .pass = pass,
          .by_owners = setting_.owners > 0};
}

/// Pieces have random numbers of their own.
Round BucketRound::round_of(const Piece& piece, std::uint32_t pass) const {
  Round round = round_of(piece.parameter, pass);
  if (setting_.owners > 0) round.tensor = first_piece_ + static_cast<std::uint32_t>(&piece - pieces_.data());
  return round;
}

/// Of the way back from the owner, which draws other random numbers than it did as one of the ranks.
Round BucketRound::round_back(const Piece& piece) const {
  Round round = round_of(piece, 0);
  round.rank = setting_.world + piece.owner;
  return round;
}

at::Tensor BucketRound::gradient_of(std::uint32_t parameter) const {
  const auto& tensor = setting_.parameters[parameter].tensor;
  const auto& gradient = tensor.grad();
  return gradient.defined() ? gradient.contiguous() : at::zeros_like(tensor);
}

Error BucketRound::of_piece(const Error& error, const Piece& piece) const {
  if (piece.rows == 0) return of_parameter(error, piece.parameter);
  const std::string rows = std::to_string(piece.first_row) + " to " + std::to_string(piece.first_row + piece.rows - 1);
  return of_parameter(error.within("rows " + rows), piece.parameter);
}

Error BucketRound::of_parameter(const Error& error, std::uint32_t parameter) const {
  return error.within("gradient of " + setting_.parameters[parameter].name);
}

}  // namespace weir::actors
