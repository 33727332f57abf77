#include "training/exchange/coded_round.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "compressors/flat.hpp"

namespace weir::training {
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

}  // namespace

Element element_of(Reduction reduction) {
  if (reduction == Reduction::sum_fp16) return Element::float16;
  if (reduction == Reduction::sum_bf16) return Element::bfloat16;
  return Element::float32;
}

void append_entries(const compressors::Selection& entries, std::uint64_t first, compressors::Selection& to) {
  for (const auto position : entries.positions) to.positions.push_back(static_cast<std::uint32_t>(first + position));
  to.values.insert(to.values.end(), entries.values.begin(), entries.values.end());
}

void append_positions(const compressors::Selection& entries, std::uint64_t first, Mean& mean) {
  for (const auto position : entries.positions) {
    mean.positions.push_back(static_cast<std::uint32_t>(first + position));
  }
}

CodedRound::CodedRound(const RoundSetting& setting, const Bucket& bucket, std::vector<Piece> pieces, bool by_owners,
                       std::optional<std::uint32_t> first_piece)
    : setting_(setting),
      pieces_(std::move(pieces)),
      views_(pieces_.size()),
      by_owners_(by_owners),
      first_piece_(first_piece) {
  std::uint64_t entries = 0;
  for (const auto p : bucket.parameters) entries += static_cast<std::uint64_t>(setting.parameters[p].tensor.numel());
  gathered_.bytes_max = payload_growth_max * entries * sizeof(float) + payload_slack_bytes;
  incoming_.bytes_max = gathered_.bytes_max;
}

void CodedRound::begin(const Step& step, std::span<const std::uint32_t> parameters, bool there) {
  step_ = step;
  there_ = there;
  parameters_.assign(parameters.begin(), parameters.end());
  coded_pieces_.clear();
  for (std::size_t coded = 0, piece = 0; coded < parameters_.size(); ++coded) {
    while (pieces_[piece].parameter != parameters_[coded]) ++piece;
    for (; piece < pieces_.size() && pieces_[piece].parameter == parameters_[coded]; ++piece) {
      coded_pieces_.push_back({.piece = piece, .coded = coded});
    }
  }
  passes_.clear();
  if (!parameters_.empty()) passes_ = compressor().traits().passes;
}

Result<void> CodedRound::encode(std::uint32_t pass, std::span<const at::Tensor> gradients) {
  if (pass == 0) {
    rounds_.clear();
    for (const auto p : parameters_) rounds_.push_back(round_of(p, 0));
    auto compensated = setting_.compression.memory->compensate_all(gradients, rounds_, compensated_);
    if (!compensated) {
      const std::size_t done = compensated_.size();
      return done < parameters_.size() ? setting_.of_parameter(compensated.error(), parameters_[done])
                                       : compensated.error();
    }
    shows_gradients_ = !gradients.empty() && compensated_.front().is_alias_of(gradients.front());
  }
  return encode_compensated(pass);
}

void CodedRound::let_gradients_go() {
  compensated_.clear();
  if (!shows_gradients_) return;
  for (at::Tensor& view : views_) show_nothing(view);
}

void CodedRound::leave(const Step& step, std::span<const std::uint32_t> parameters) {
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    const std::uint32_t parameter = pieces_[piece].parameter;
    if (std::ranges::find(parameters, parameter) == parameters.end()) continue;
    hand_over(piece, setting_.round(step, parameter));
  }
}

Result<void> CodedRound::encode_compensated(std::uint32_t pass) {
  const bool last = pass == last_pass();
  const bool sparse = last && compressor().traits().sparse;
  own_entries_.resize(parameters_.size());
  payload_.clear();
  ends_.assign(parameters_.size(), 0);
  if (auto begun = begin_encoding(pass); !begun) return begun;
  for (CodedPiece& coded : coded_pieces_) {
    if (auto encoded = encode(coded, pass, sparse); !encoded) return of_piece(encoded.error(), pieces_[coded.piece]);
  }
  const bool kept = last && !sparse && setting_.compression.memory->traits().reads_sent;
  own_sums_.clear();
  if (kept && passes_[pass] != Reduction::gather) own_sums_ = payload_;
  return {};
}

Result<void> CodedRound::begin_encoding(std::uint32_t pass) {
  if (compensated_.empty() || compensated_.front().is_cpu()) return {};
  std::vector<at::Tensor> tensors;
  rounds_.clear();
  for (const CodedPiece& coded : coded_pieces_) {
    const Piece& piece = pieces_[coded.piece];
    tensors.push_back(piece.of(compensated_[coded.coded], views_[coded.piece]));
    rounds_.push_back(round_to_encode(piece, pass));
  }
  return compressor().begin(tensors, rounds_);
}

Round CodedRound::round_to_encode(const Piece& piece, std::uint32_t pass) const {
  const Round round = round_of(piece, pass);
  return piece.rows == 0 ? with_notes(round, piece.parameter) : round;
}

Result<void> CodedRound::encode(CodedPiece& coded, std::uint32_t pass, bool sparse) {
  const Piece& piece = pieces_[coded.piece];
  compressors::Selection& own = own_entries_[coded.coded];
  const bool whole = piece.rows == 0;
  compressors::Selection* selected = nullptr;
  if (sparse) selected = whole ? &own : &entries_;
  coded.begin = payload_.size();
  auto encoded = compressor().encode(piece.of(compensated_[coded.coded], views_[coded.piece]),
                                     round_to_encode(piece, pass), payload_, selected);
  coded.end = ends_[coded.coded] = payload_.size();
  if (!encoded || !sparse) return encoded;
  if (!whole && piece.first_row == 0) own.clear();
  coded.entries_begin = whole ? 0 : own.size();
  if (!whole) append_entries(entries_, piece.first_entry, own);
  coded.entries_end = own.size();
  return {};
}

Buffer CodedRound::sums(std::uint32_t pass) { return {std::span(payload_), element_of(passes_[pass])}; }

ReduceOp CodedRound::operation(std::uint32_t pass) const {
  return passes_[pass] == Reduction::max ? ReduceOp::max : ReduceOp::sum;
}

Result<void> CodedRound::decode(std::uint32_t pass) {
  const auto in_stream = setting_.in_stream_of(parameters_);
  if (passes_[pass] == Reduction::gather) return decode_gathered(pass);
  const bool together = pass == last_pass() && there_;
  if (together) {
    if (auto begun = begin_means_there(); !begun) return begun;
  }
  for (const CodedPiece& coded : coded_pieces_) {
    const BytesView sum = BytesView(payload_).subspan(coded.begin, coded.end - coded.begin);
    if (auto taken = take_sum(coded, sum, pass); !taken) return of_piece(taken.error(), pieces_[coded.piece]);
  }
  return together ? conclude_all() : Result<void>();
}

Result<void> CodedRound::take_sum(const CodedPiece& coded, BytesView sum, std::uint32_t pass) {
  const Piece& piece = pieces_[coded.piece];
  const Round round = round_of(piece, pass);
  auto absorbed = compressor().absorb(std::span(&sum, 1), round);
  if (!absorbed || pass != last_pass()) return absorbed;
  Mean& mean = mean_of(piece.parameter);
  auto added = there_ ? Result<void>() : restart(mean);
  if (added) added = compressor().decode_add(sum, round, 1 / static_cast<float>(setting_.world), mean.tensor);
  if (!added || there_) return added;
  const bool sparse = compressor().traits().sparse;
  const auto& own = own_entries_[coded.coded];
  if (mean.sparse) append_positions(own, 0, mean);
  return conclude(coded.coded, sparse ? Sent(own) : Sent(compressor(), own_payload(coded), round));
}

Result<void> CodedRound::expect_all_taken() const {
  for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
    if (!streams_[rank].empty()) {
      return Error{Errc::malformed, "rank " + std::to_string(rank) + " sent more than the payloads of its bucket"};
    }
  }
  return {};
}

bool CodedRound::has_sparse_means() const {
  const auto traits = compressor().traits();
  return traits.sparse && !traits.votes && !setting_.compression.memory->traits().changes_mean;
}

Result<void> CodedRound::restart(Mean& mean) const {
  // The ranks of a host get a copy of their leader's mean without the positions. An optimizer may round a sparse mean
  // in another way than a dense one, so that all take the same.
  return training::restart(mean, has_sparse_means() && !setting_.by_hosts);
}

Result<void> CodedRound::conclude(std::size_t coded, const Sent& sent) {
  const Round round = round_of(parameters_[coded], last_pass());
  Mean& mean = mean_of(parameters_[coded]);
  if (!has_sparse_means()) mean.positions_there.reset();
  auto concluded = compressor().conclude(mean.tensor, round);
  return concluded ? setting_.compression.memory->update(round, sent, mean.tensor) : concluded;
}

Result<void> CodedRound::begin_means_there() {
  std::vector<Mean*> means;
  for (const auto parameter : parameters_) means.push_back(&mean_of(parameter));
  return restart_there(means);
}

Result<void> CodedRound::conclude_all() {
  rounds_.clear();
  for (const auto parameter : parameters_) rounds_.push_back(round_of(parameter, last_pass()));
  std::vector<at::Tensor> means;
  std::vector<Sent> sent;
  for (std::size_t coded = 0; coded < parameters_.size(); ++coded) {
    Mean& mean = mean_of(parameters_[coded]);
    if (!has_sparse_means()) mean.positions_there.reset();
    means.push_back(mean.tensor);
    sent.push_back(compressor().traits().sparse
                       ? Sent(own_entries_[coded])
                       : Sent(compressor(), own_payload(coded_pieces_[coded]), rounds_[coded]));
  }
  auto concluded = compressor().conclude_all(means, rounds_);
  return concluded ? setting_.compression.memory->update_all(rounds_, sent, means) : concluded;
}

Result<void> CodedRound::decode_from_owners(FunctionRef<Result<void>(const CodedPiece&)> take,
                                            FunctionRef<compressors::Sent(std::span<const CodedPiece>)> sent) {
  streams_.assign(gathered_.payloads.begin(), gathered_.payloads.begin() + setting_.owners);
  for (auto first = coded_pieces_.begin(); first != coded_pieces_.end();) {
    const auto end =
        std::find_if(first, coded_pieces_.end(), [&](const CodedPiece& coded) { return coded.coded != first->coded; });
    if (auto restarted = restart(mean_of(parameters_[first->coded])); !restarted) return restarted;
    for (auto coded = first; coded != end; ++coded) {
      const Piece& piece = pieces_[coded->piece];
      if (auto taken = take(*coded); !taken) {
        return of_piece(taken.error(), piece).within("rank " + std::to_string(piece.owner));
      }
    }
    if (auto done = conclude(first->coded, sent({first, end})); !done) return done;
    first = end;
  }
  return expect_all_taken();
}

BytesView CodedRound::own_payload(const CodedPiece& coded) const {
  const bool summed = passes_.back() != Reduction::gather;
  if (summed && own_sums_.empty()) return {};
  return BytesView(summed ? own_sums_ : payload_).subspan(coded.begin, coded.end - coded.begin);
}

Round CodedRound::with_notes(Round round, std::uint32_t parameter) const {
  round.peaks = setting_.compression.memory->peaks(round_of(parameter, 0));
  round.bins = setting_.compression.memory->bins(round_of(parameter, 0));
  return round;
}

Round CodedRound::round_of(std::uint32_t parameter, std::uint32_t pass) const {
  Round round = setting_.round(step_, parameter);
  round.pass = pass;
  round.by_owners = by_owners_;
  return round;
}

Round CodedRound::round_of(const Piece& piece, std::uint32_t pass) const {
  Round round = round_of(piece.parameter, pass);
  if (first_piece_) round.tensor = *first_piece_ + static_cast<std::uint32_t>(&piece - pieces_.data());
  return round;
}

Error CodedRound::of_piece(const Error& error, const Piece& piece) const {
  if (piece.rows == 0) return setting_.of_parameter(error, piece.parameter);
  const std::string rows = std::to_string(piece.first_row) + " to " + std::to_string(piece.first_row + piece.rows - 1);
  return setting_.of_parameter(error.within("rows " + rows), piece.parameter);
}

}  // namespace weir::training
