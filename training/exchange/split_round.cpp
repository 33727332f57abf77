#include "training/exchange/split_round.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "compressors/codecs/counts.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/flat.hpp"
#include "training/exchange/allowance.hpp"

namespace weir::training {
namespace {

using compressors::Selection;
using compressors::Sent;

/// Beside the entries: a part has a header, however few of them it has.
constexpr std::size_t part_bytes = 64;

std::vector<std::uint64_t> begins_of(std::span<const Piece> pieces) {
  std::vector<std::uint64_t> begins{0};
  for (const Piece& piece : pieces) begins.push_back(begins.back() + piece.entries);
  return begins;
}

Error of_rank(const Error& error, std::uint32_t rank) { return error.within("rank " + std::to_string(rank)); }

/// Keeps the `count` entries of largest magnitude.
void keep_largest(Selection& entries, std::uint64_t count) {
  if (count == 0) return entries.clear();
  if (count < entries.size()) trim(entries, compressors::cut_at_rank(entries.values, count));
}

/// Keeps the entries that are at `positions`, too, which ascend.
void keep_common(Selection& entries, std::span<const std::uint32_t> positions) {
  std::size_t kept = 0;
  auto at = positions.begin();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    while (at != positions.end() && *at < entries.positions[i]) ++at;
    if (at == positions.end()) break;
    if (*at != entries.positions[i]) continue;
    entries.positions[kept] = entries.positions[i];
    entries.values[kept++] = entries.values[i];
  }
  entries.resize(kept);
}

}  // namespace

SplitRound::SplitRound(const RoundSetting& setting, const Bucket& bucket)
    : CodedRound(setting, bucket, whole_parameters(setting.parameters, bucket), /*by_owners=*/true, {}),
      piece_begins_(begins_of(pieces_)),
      regions_(piece_begins_.back(), setting.world),
      thresholds_(pieces_.size()),
      messages_(setting.world) {
  incoming_.bytes_max += part_bytes * pieces_.size();
  gathered_.bytes_max += part_bytes * pieces_.size();
}

std::span<SplitRound::Part> SplitRound::parts_of(std::uint32_t owner) {
  const std::size_t begin = owner == 0 ? 0 : part_ends_[owner - 1];
  return std::span(parts_).subspan(begin, part_ends_[owner] - begin);
}

// To the owners.

Result<void> SplitRound::encode_compensated(std::uint32_t pass) {
  const std::size_t tensors = parameters_.size();
  own_entries_.resize(tensors);
  chosen_.assign(setting_.world, 0);
  if (auto begun = begin_encoding(pass); !begun) return begun;
  for (std::size_t coded = 0; coded < tensors; ++coded) {
    const auto round = with_notes(round_of(parameters_[coded], pass), parameters_[coded]);
    auto selected = compressor().select_entries(compensated_[coded], round, own_entries_[coded]);
    if (!selected) return setting_.of_parameter(selected.error(), parameters_[coded]);
    chosen_[setting_.rank] += own_entries_[coded].size();
  }
  lay_out_parts();
  read_.assign(tensors, 0);
  kept_.assign(tensors, 0);
  bytes_.assign(tensors, 0);
  for (std::uint32_t owner = 0; owner < setting_.world; ++owner) encode_region(owner);
  for (std::size_t coded = 0; coded < tensors; ++coded) own_entries_[coded].resize(kept_[coded]);
  outgoing_.assign(messages_.begin(), messages_.end());
  ends_.resize(tensors);
  std::inclusive_scan(bytes_.begin(), bytes_.end(), ends_.begin());
  return {};
}

void SplitRound::lay_out_parts() {
  parts_.clear();
  part_ends_.clear();
  for (std::uint32_t owner = 0; owner < setting_.world; ++owner) {
    for (std::size_t coded = 0; coded < parameters_.size(); ++coded) {
      const std::uint64_t begin = first_entry(coded);
      const std::uint64_t end = begin + pieces_[coded_pieces_[coded].piece].entries;
      const std::uint64_t first = std::max(begin, regions_.begin(owner));
      const std::uint64_t last = std::min(end, regions_.end(owner));
      if (first >= last) continue;
      parts_.push_back({.coded = coded,
                        .first = static_cast<std::uint32_t>(first - begin),
                        .entries = static_cast<std::uint32_t>(last - first)});
    }
    part_ends_.push_back(parts_.size());
  }
}

/// Encodes what this rank has chosen in a region. What it sends, as others see it, stays in own_entries_.
void SplitRound::encode_region(std::uint32_t owner) {
  const auto parts = parts_of(owner);
  const bool own = owner == setting_.rank;
  counts_.assign(1, chosen_[setting_.rank]);
  for (Part& part : parts) {
    const auto positions = std::span(own_entries_[part.coded].positions).subspan(read_[part.coded]);
    const auto end = std::ranges::lower_bound(positions, std::uint64_t{part.first} + part.entries);
    part.chosen = static_cast<std::uint64_t>(end - positions.begin());
    counts_.push_back(part.chosen);
  }
  Bytes& message = messages_[owner];
  message.clear();
  const auto wanted = std::span(counts_).subspan(1);
  if (own) {
    shares_.assign(wanted.begin(), wanted.end());
    own_.resize(std::max(own_.size(), parts.size()));
  } else {
    compressors::write_counts(counts_, message);
    const std::uint64_t most = allowance(chosen_[setting_.rank], setting_.world, turn_of(setting_.rank, owner));
    share_out(most, wanted, wanted, shares_);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    Selection& entries = own ? own_[i] : entries_;
    move_part(part, shares_[i], entries);
    if (!own) {
      const std::size_t before = message.size();
      compressor().write_part(entries, part.entries, message);
      bytes_[part.coded] += message.size() - before;
    }
    Selection& sent = own_entries_[part.coded];
    for (std::size_t entry = 0; entry < entries.size(); ++entry, ++kept_[part.coded]) {
      sent.positions[kept_[part.coded]] = part.first + entries.positions[entry];
      sent.values[kept_[part.coded]] = entries.values[entry];
    }
  }
}

/// Moves the `count` largest entries of a part, which are the next ones in own_entries_, to `to`.
void SplitRound::move_part(const Part& part, std::uint64_t count, Selection& to) {
  const Selection& all = own_entries_[part.coded];
  const std::size_t begin = std::exchange(read_[part.coded], read_[part.coded] + part.chosen);
  to.resize(part.chosen);
  for (std::size_t i = 0; i < to.size(); ++i) {
    to.positions[i] = all.positions[begin + i] - part.first;
    to.values[i] = all.values[begin + i];
  }
  keep_largest(to, count);
}

// At the owner.

Result<void> SplitRound::combine() {
  streams_.assign(incoming_.payloads.begin(), incoming_.payloads.end());
  streams_[setting_.rank] = {};
  if (auto read = read_counts_of_ranks(); !read) return read;
  // The memory of the means has room for the sums until the means come.
  for (const std::uint32_t parameter : parameters_) {
    if (auto restarted = restart(setting_.means[parameter]); !restarted) return restarted;
  }
  const std::size_t parts = parts_of(setting_.rank).size();
  sums_.resize(std::max(sums_.size(), parts));
  received_.assign(setting_.world, 0);
  for (std::size_t index = 0; index < parts; ++index) {
    if (auto added = add_up(index); !added) return added;
  }
  return expect_all_taken();
}

Result<void> SplitRound::read_counts_of_ranks() {
  const auto parts = parts_of(setting_.rank);
  announced_.assign(setting_.world * parts.size(), 0);
  counts_.resize(1 + parts.size());
  for (std::uint32_t rank = 0; rank < setting_.world; ++rank) {
    if (rank == setting_.rank) continue;
    const auto payload = compressors::take_payload(streams_[rank]);
    auto read = payload ? compressors::read_counts(*payload, counts_) : Result<void>(payload.error());
    if (!read) return of_rank(read.error(), rank);
    bool possible = counts_[0] <= piece_begins_.back();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      possible &= counts_[1 + i] <= parts[i].entries;
      parts[i].chosen += counts_[1 + i];
      announced_[rank * parts.size() + i] = counts_[1 + i];
    }
    if (!possible) return of_rank({Errc::malformed, "more entries are chosen than there are"}, rank);
    chosen_[rank] = counts_[0];
  }
  chosen_by_all_ = std::accumulate(chosen_.begin(), chosen_.end(), std::uint64_t{0});
  return {};
}

/// Adds up what the ranks have sent of a part of the own region, and keeps what goes back.
Result<void> SplitRound::add_up(std::size_t index) {
  const float share = 1 / static_cast<float>(setting_.world);
  const Part& part = parts_of(setting_.rank)[index];
  const auto values = compressors::flat(setting_.means[parameters_[part.coded]].tensor);
  sum_.begin(values.subspan(part.first, part.entries));
  for (std::uint32_t rank = 0; rank < setting_.world; ++rank) {
    if (rank == setting_.rank) {
      sum_.add(own_[index], share);
      continue;
    }
    if (auto read = read_part_of(rank, index); !read) {
      return of_rank(setting_.of_parameter(read.error(), parameters_[part.coded]), rank);
    }
    sum_.add(entries_, share);
  }
  Selection& sums = sums_[index];
  sum_.take(sums);
  if (compressors::find_non_finite(sums.values) != sums.size()) {
    return setting_.of_parameter({Errc::invalid_argument, "the sum of what the ranks have sent is not a number"},
                                 parameters_[part.coded]);
  }
  drop_small(part, sums);
  return {};
}

/// Reads what a rank has sent of a part of the own region into entries_: no more than it may, or says it has chosen.
Result<void> SplitRound::read_part_of(std::uint32_t rank, std::size_t index) {
  const auto parts = parts_of(setting_.rank);
  const std::uint64_t most = allowance(chosen_[rank], setting_.world, turn_of(rank, setting_.rank));
  return read_part(rank, parts[index], std::min(most, received_[rank] + announced_[rank * parts.size() + index]));
}

/// Reads the part that is next in the stream of a rank into entries_. `most`: how many entries it may have sent until
/// then.
Result<void> SplitRound::read_part(std::uint32_t rank, const Part& part, std::uint64_t most) {
  const auto payload = compressors::take_payload(streams_[rank]);
  if (!payload) return payload.error();
  if (auto read = compressor().read_part(*payload, part.entries, entries_); !read) return read;
  received_[rank] += entries_.size();
  if (received_[rank] <= most) return {};
  return Error{Errc::malformed, "it has sent " + std::to_string(received_[rank]) + " entries, of which " +
                                    std::to_string(most) + " are allowed"};
}

/// Drops the sums that do not reach the threshold. There is nothing to save where no more of them are left than a rank
/// has chosen on average.
void SplitRound::drop_small(const Part& part, Selection& sums) const {
  const bool few = sums.size() * setting_.world <= part.chosen;
  const std::uint32_t least = few ? 1 : thresholds_[coded_pieces_[part.coded].piece].least();
  trim(sums, {.magnitude = least - 1, .ties = 0});
}

Result<void> SplitRound::encode_combined() {
  combined_.clear();
  const auto parts = parts_of(setting_.rank);
  counts_.clear();
  weights_.clear();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    counts_.push_back(sums_[i].size());
    weights_.push_back(parts[i].chosen);
  }
  share_out(allowance_of_all(chosen_by_all_, setting_.world, turn_of(0, setting_.rank)), counts_, weights_, shares_);
  compressors::write_counts(weights_, combined_);
  corrections_.resize(parameters_.size());
  for (Selection& corrections : corrections_) corrections.clear();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    keep_largest(sums_[i], shares_[i]);
    encode_sums(parts[i], sums_[i]);
  }
  return {};
}

/// Encodes the sums of a part, and puts what that changes to this rank's account.
void SplitRound::encode_sums(const Part& part, Selection& sums) {
  exact_.assign(sums.values.begin(), sums.values.end());
  compressor().write_part(sums, part.entries, combined_);
  Selection& corrections = corrections_[part.coded];
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums.values[i] == exact_[i]) continue;
    corrections.positions.push_back(part.first + sums.positions[i]);
    corrections.values.push_back((sums.values[i] - exact_[i]) * static_cast<float>(setting_.world));
  }
}

// From the owners.

Result<void> SplitRound::decode_gathered(std::uint32_t /*pass*/) {
  streams_.assign(gathered_.payloads.begin(), gathered_.payloads.end());
  streams_[setting_.rank] = {};
  received_.assign(setting_.world, 0);
  next_part_.assign(setting_.world, 0);
  for (std::uint32_t owner = 0; owner < setting_.world; ++owner) {
    if (owner == setting_.rank) continue;
    if (auto read = read_counts_of_owner(owner); !read) return of_rank(read.error(), owner);
  }
  for (std::size_t coded = 0; coded < parameters_.size(); ++coded) {
    if (auto decoded = decode_tensor(coded); !decoded) return decoded;
  }
  if (auto taken = expect_all_taken(); !taken) return taken;
  counts_.assign(setting_.world, 0);
  for (std::uint32_t owner = 0; owner < setting_.world; ++owner) {
    for (const Part& part : parts_of(owner)) counts_[owner] += part.chosen;
  }
  regions_.end_round(counts_);
  return {};
}

Result<void> SplitRound::read_counts_of_owner(std::uint32_t owner) {
  const auto parts = parts_of(owner);
  counts_.resize(parts.size());
  const auto payload = compressors::take_payload(streams_[owner]);
  if (!payload) return payload.error();
  if (auto read = compressors::read_counts(*payload, counts_); !read) return read;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (counts_[i] > std::uint64_t{parts[i].entries} * setting_.world) {
      return Error{Errc::malformed, "more entries are chosen than there are"};
    }
    parts[i].chosen = counts_[i];
  }
  return {};
}

/// Makes the mean of a tensor of what the owners have sent back.
Result<void> SplitRound::decode_tensor(std::size_t coded) {
  Mean& mean = mean_of(parameters_[coded]);
  std::uint64_t chosen = 0;
  mean_.clear();
  for (std::uint32_t owner = 0; owner < setting_.world; ++owner) {
    const auto parts = parts_of(owner).subspan(next_part_[owner]);
    if (parts.empty() || parts.front().coded != coded) continue;
    const Part& part = parts.front();
    const Selection* sums = nullptr;
    if (auto taken = take_sums(owner, part, sums); !taken) {
      return of_rank(setting_.of_parameter(taken.error(), parameters_[coded]), owner);
    }
    ++next_part_[owner];
    chosen += part.chosen;
    for (std::size_t i = 0; i < sums->size(); ++i) {
      mean_.positions.push_back(part.first + sums->positions[i]);
      mean_.values.push_back(sums->values[i]);
    }
  }
  if (auto put = put_sums(mean); !put) return put;
  thresholds_[coded_pieces_[coded].piece].end_round(mean_.values, (chosen + setting_.world - 1) / setting_.world);
  keep_common(own_entries_[coded], mean_.positions);
  return conclude(coded, Sent(own_entries_[coded], corrections_[coded]));
}

/// Makes mean_ the entries of a mean that are not zero.
Result<void> SplitRound::put_sums(Mean& mean) {
  if (mean.is_there()) {
    if (auto restarted = restart(mean); !restarted) return restarted;
    const EntriesForMean all{{&mean_}, &mean};
    return add_there(1, std::span(&all, 1));
  }
  const auto values = compressors::flat(mean.tensor);
  for (std::size_t i = 0; i < mean_.size(); ++i) values[mean_.positions[i]] = mean_.values[i];
  if (mean.sparse) mean.positions = mean_.positions;
  return {};
}

/// Finds what an owner has sent back of the next part of its region.
Result<void> SplitRound::take_sums(std::uint32_t owner, const Part& part, const Selection*& sums) {
  if (owner == setting_.rank) {
    sums = &sums_[next_part_[owner]];
    return {};
  }
  sums = &entries_;
  const std::uint64_t most = allowance_of_all(chosen_by_all_, setting_.world, turn_of(0, owner));
  return read_part(owner, part, std::min(most, received_[owner] + part.chosen));
}

// State.

void SplitRound::save(std::vector<NamedTensor>& state) const {
  if (pieces_.empty()) return;
  state.push_back({"regions." + name_of(0), regions_.save()});
  for (std::size_t i = 0; i < pieces_.size(); ++i) state.push_back({"threshold." + name_of(i), thresholds_[i].save()});
}

Result<void> SplitRound::restore(std::span<const NamedTensor> state) {
  if (pieces_.empty()) return {};
  const auto restore = [&](const std::string& name, auto& into) -> Result<void> {
    const auto found = std::ranges::find(state, name, &NamedTensor::name);
    if (found == state.end()) return Error{Errc::malformed, "no " + name + " in the state of the exchange"};
    auto restored = into.restore(found->tensor);
    return restored ? restored : restored.error().within(name);
  };
  if (auto done = restore("regions." + name_of(0), regions_); !done) return done;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (auto done = restore("threshold." + name_of(i), thresholds_[i]); !done) return done;
  }
  return {};
}

}  // namespace weir::training
