#include "split_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace weir::training::testing {
namespace {

Entries within(const Entries& entries, std::int64_t begin, std::int64_t end) {
  Entries found;
  for (const Entry& entry : entries) {
    if (entry.at >= begin && entry.at < end) found.push_back(entry);
  }
  return found;
}

Entries largest(Entries entries, std::int64_t count) {
  std::ranges::stable_sort(entries,
                           [](const Entry& a, const Entry& b) { return std::abs(a.value) > std::abs(b.value); });
  if (count < std::ssize(entries)) entries.resize(static_cast<std::size_t>(count));
  std::ranges::sort(entries, {}, &Entry::at);
  return entries;
}

/// What `reader` makes of what `writer` writes.
Entries over_the_wire(const Entries& entries, std::int64_t begin, std::int64_t end, compressors::Compressor& writer,
                      compressors::Compressor& reader) {
  compressors::Selection part;
  for (const Entry& entry : entries) {
    part.positions.push_back(static_cast<std::uint32_t>(entry.at - begin));
    part.values.push_back(entry.value);
  }
  Bytes payload;
  writer.write_part(part, static_cast<std::uint32_t>(end - begin), payload);
  compressors::Selection read;
  reader.read_part(payload, static_cast<std::uint32_t>(end - begin), read).value();
  Entries arrived;
  for (std::size_t i = 0; i < read.size(); ++i) arrived.push_back({begin + read.positions[i], read.values[i]});
  return arrived;
}

/// Floor of 3/2 of `sum` / `parts`, in such a way that consecutive turns add up to the floor of the sum; at least one.
std::int64_t three_halves(std::int64_t sum, std::int64_t parts, std::int64_t turn) {
  return std::max<std::int64_t>(1, 3 * sum * (turn + 1) / (2 * parts) - 3 * sum * turn / (2 * parts));
}

/// Of `total`, to each what it wants, beginning with who wants least for its weight, or its share of what is left.
std::vector<std::int64_t> divided(std::int64_t total, const std::vector<std::int64_t>& wanted,
                                  const std::vector<std::int64_t>& weights) {
  if (std::accumulate(wanted.begin(), wanted.end(), std::int64_t{0}) <= total) return wanted;
  std::vector<std::int64_t> shares(wanted.size());
  std::set<std::size_t> left;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] > 0) left.insert(i);
  }
  while (!left.empty()) {
    const auto ratio = [&](std::size_t i) { return static_cast<double>(wanted[i]) / static_cast<double>(weights[i]); };
    const std::size_t next = *std::ranges::min_element(left, {}, ratio);
    std::int64_t weight = 0;
    for (const std::size_t i : left) weight += weights[i];
    shares[next] = std::min(wanted[next], total * weights[next] / weight);
    total -= shares[next];
    left.erase(next);
  }
  return shares;
}

std::vector<std::int64_t> counts_of(const std::vector<Entries>& lists) {
  std::vector<std::int64_t> counts;
  for (const Entries& list : lists) counts.push_back(std::ssize(list));
  return counts;
}

bool uneven(const std::vector<std::int64_t>& loads) {
  const auto all = static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
  const double average = all / static_cast<double>(loads.size());
  return average >= 64 && static_cast<double>(std::ranges::max(loads)) > 1.5 * average;
}

}  // namespace

SplitModel::SplitModel(std::vector<std::pair<std::uint32_t, std::int64_t>> sizes, std::size_t ranks)
    : sizes_(std::move(sizes)), ranks_(static_cast<std::int64_t>(ranks)), loads_(ranks) {
  for (const auto& [parameter, size] : sizes_) {
    begins_[parameter] = entries_;
    entries_ += size;
  }
  for (std::int64_t owner = 0; owner <= ranks_; ++owner) borders_.push_back(entries_ * owner / ranks_);
}

std::vector<SplitModel::Part> SplitModel::parts_of(std::size_t owner, const std::vector<std::uint32_t>& members) const {
  std::vector<Part> parts;
  for (const auto& [parameter, size] : sizes_) {
    if (std::ranges::count(members, parameter) == 0) continue;
    const std::int64_t begin = std::max(borders_[owner], begins_.at(parameter));
    const std::int64_t end = std::min(borders_[owner + 1], begins_.at(parameter) + size);
    if (begin < end) parts.push_back({parameter, begin, end});
  }
  return parts;
}

SplitModel::Outcome SplitModel::step(std::uint64_t number, const std::vector<std::uint32_t>& members,
                                     const std::vector<Entries>& chosen,
                                     const std::vector<compressors::Compressor*>& compressors) {
  const auto ranks = static_cast<std::size_t>(ranks_);
  const auto step = static_cast<std::int64_t>(number);
  const float share = 1 / static_cast<float>(ranks_);
  std::vector<Entries> sent(ranks);
  Outcome outcome{.mean = {}, .sent = {}, .corrections = std::vector<Entries>(ranks)};
  std::int64_t chosen_by_all = 0;
  for (const Entries& entries : chosen) chosen_by_all += std::ssize(entries);
  std::vector<std::int64_t> loads(ranks);
  std::map<std::uint32_t, std::int64_t> chosen_of;
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    const auto parts = parts_of(owner, members);
    std::vector<std::map<std::int64_t, float>> sums(parts.size());
    std::vector<std::int64_t> chosen_here(parts.size());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<Entries> there;
      for (const Part& part : parts) there.push_back(within(chosen[rank], part.begin, part.end));
      auto counts = counts_of(there);
      for (std::size_t p = 0; p < parts.size(); ++p) chosen_here[p] += counts[p];
      if (rank != owner) {
        const std::int64_t turn = (static_cast<std::int64_t>(rank + owner) + step) % ranks_;
        counts = divided(three_halves(std::ssize(chosen[rank]), ranks_, turn), counts, counts);
      }
      for (std::size_t p = 0; p < parts.size(); ++p) {
        Entries arrived = largest(there[p], counts[p]);
        if (rank != owner) {
          arrived = over_the_wire(arrived, parts[p].begin, parts[p].end, *compressors[rank], *compressors[owner]);
        }
        for (const Entry& entry : arrived) {
          float& sum = sums[p].try_emplace(entry.at, 0.0F).first->second;
          sum = sum + share * entry.value;
          sent[rank].push_back(entry);
        }
      }
    }
    std::vector<Entries> back;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const auto& least = thresholds_[parts[p].parameter].least;
      const bool few = std::ssize(sums[p]) * ranks_ <= chosen_here[p];
      Entries& kept = back.emplace_back();
      for (const auto& [at, sum] : sums[p]) {
        if (sum != 0 && (few || !least || std::abs(sum) >= *least)) kept.push_back({at, sum});
      }
      loads[owner] += chosen_here[p];
      chosen_of[parts[p].parameter] += chosen_here[p];
    }
    const std::int64_t turn = (static_cast<std::int64_t>(owner) + step) % ranks_;
    const auto counts = divided(three_halves(chosen_by_all, ranks_ * ranks_, turn), counts_of(back), chosen_here);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const Entries exact = largest(back[p], counts[p]);
      const Entries arrived =
          over_the_wire(exact, parts[p].begin, parts[p].end, *compressors[owner], *compressors[(owner + 1) % ranks]);
      for (std::size_t i = 0; i < arrived.size(); ++i) {
        const float change = arrived[i].value - exact[i].value;
        if (change != 0) {
          outcome.corrections[owner].push_back({exact[i].at, change * static_cast<float>(ranks_)});
        }
      }
      outcome.mean.insert(outcome.mean.end(), arrived.begin(), arrived.end());
    }
  }
  std::set<std::int64_t> in_mean;
  for (const Entry& entry : outcome.mean) in_mean.insert(entry.at);
  for (const Entries& entries : sent) {
    auto& counted = outcome.sent.emplace_back();
    std::ranges::copy_if(entries, std::back_inserter(counted),
                         [&](const Entry& it) { return in_mean.contains(it.at); });
  }
  for (const auto& [parameter, size] : sizes_) {
    if (std::ranges::count(members, parameter) == 0) continue;
    Entries returned = within(outcome.mean, begins_[parameter], begins_[parameter] + size);
    const std::int64_t due = (chosen_of[parameter] + ranks_ - 1) / ranks_;
    Threshold& threshold = thresholds_[parameter];
    const auto count = static_cast<double>(returned.size());
    const auto wanted = static_cast<double>(due);
    const bool fits = count * 3 >= wanted * 2 && count * 3 <= wanted * 4;
    ++threshold.age;
    if (threshold.least && fits && threshold.age < 32) continue;
    threshold = {};
    if (due == 0 || std::ssize(returned) < due) continue;
    std::ranges::sort(returned, std::greater(), [](const Entry& it) { return std::abs(it.value); });
    threshold.least = std::abs(returned[static_cast<std::size_t>(due - 1)].value);
  }
  move_regions(loads);
  return outcome;
}

void SplitModel::move_regions(const std::vector<std::int64_t>& loads) {
  for (std::size_t owner = 0; owner < loads.size(); ++owner) loads_[owner] += loads[owner];
  ++age_;
  if (age_ < 64 && !uneven(loads_)) {
    if (!uneven(loads)) return;
    loads_ = loads;
  }
  balance();
}

/// A border goes to where so many entries lie before it, if those of a region lie evenly in it.
void SplitModel::balance() {
  const std::int64_t all = std::accumulate(loads_.begin(), loads_.end(), std::int64_t{0});
  const auto old = borders_;
  for (std::int64_t owner = 1; all > 0 && owner < ranks_; ++owner) {
    const double due = static_cast<double>(all) * static_cast<double>(owner) / static_cast<double>(ranks_);
    std::int64_t before = 0;
    std::size_t region = 0;
    while (static_cast<double>(before + loads_[region]) < due) before += loads_[region++];
    const double share = (due - static_cast<double>(before)) / static_cast<double>(loads_[region]);
    borders_[static_cast<std::size_t>(owner)] =
        old[region] + static_cast<std::int64_t>(share * static_cast<double>(old[region + 1] - old[region]));
  }
  std::ranges::fill(loads_, 0);
  age_ = 0;
}

}  // namespace weir::training::testing
