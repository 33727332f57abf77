#include "training/exchange/gathering_round.hpp"

#include <string>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"

namespace weir::training {

using compressors::Round;
using compressors::Sent;

Result<void> GatheringRound::decode_gathered(std::uint32_t pass) {
  streams_.assign(gathered_.payloads.begin(), gathered_.payloads.end());
  results_.resize(streams_.size());
  for (std::size_t coded = 0; coded < parameters_.size(); ++coded) {
    for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
      auto payload = compressors::take_payload(streams_[rank]);
      if (!payload) return payload.error().within("payload of rank " + std::to_string(rank));
      results_[rank] = *payload;
    }
    if (auto taken = take(coded, pass); !taken) return taken.error();
  }
  if (pass == last_pass() && ends_together()) {
    if (auto ended = end_together(); !ended) return ended;
  }
  return expect_all_taken();
}

/// Whether the entries for all means are read first and then added to them together.
bool GatheringRound::ends_together() const { return there_ && compressor().traits().sparse; }

/// Passes the payloads of one tensor to the compressor and, in the last pass, makes the mean of them.
Result<void> GatheringRound::take(std::size_t coded, std::uint32_t pass) {
  const auto parameter = parameters_[coded];
  const Round round = round_of(parameter, pass);
  if (auto absorbed = compressor().absorb(results_, round); !absorbed) {
    return setting_.of_parameter(absorbed.error(), parameter);
  }
  if (pass != last_pass()) return {};
  if (ends_together()) {
    auto read = setting_.gathered_mean.read_for(compressor(), payloads_of(coded, round), mean_of(parameter));
    return read ? read : setting_.of_parameter(read.error(), parameter);
  }
  if (auto averaged = average(coded, round); !averaged) return setting_.of_parameter(averaged.error(), parameter);
  return conclude(coded, compressor().traits().sparse ? Sent(own_entries_[coded])
                                                      : Sent(compressor(), own_payload(coded_pieces_[coded]), round));
}

/// Makes the mean of what the ranks sent.
Result<void> GatheringRound::average(std::size_t coded, const Round& round) {
  Mean& mean = mean_of(parameters_[coded]);
  if (auto restarted = restart(mean); !restarted) return restarted;
  return setting_.gathered_mean.add(compressor(), payloads_of(coded, round), mean);
}

/// Makes the means of all that has been read.
Result<void> GatheringRound::end_together() {
  std::vector<Mean*> means;
  std::vector<Sent> sent;
  for (std::size_t coded = 0; coded < parameters_.size(); ++coded) {
    means.push_back(&mean_of(parameters_[coded]));
    sent.emplace_back(own_entries_[coded]);
  }
  auto done = restart_there(means);
  if (done) done = setting_.gathered_mean.add_read(share());
  return done ? conclude_all(sent) : done;
}

GatheredMean::Payloads GatheringRound::payloads_of(std::size_t coded, const Round& round) const {
  return {.of_ranks = results_,
          .round = round,
          .share = share(),
          .sent = compressor().traits().sparse ? &own_entries_[coded] : nullptr};
}

/// The factor of each rank in a mean.
float GatheringRound::share() const { return 1 / static_cast<float>(setting_.world); }

}  // namespace weir::training
