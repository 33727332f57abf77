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
  const bool together = pass == last_pass() && makes_means_there();
  if (together) {
    if (auto begun = begin_means_there(); !begun) return begun;
    setting_.gathered_mean.begin();
  }
  for (std::size_t coded = 0; coded < parameters_.size(); ++coded) {
    for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
      auto payload = compressors::take_payload(streams_[rank]);
      if (!payload) return payload.error().within("payload of rank " + std::to_string(rank));
      results_[rank] = *payload;
    }
    if (auto taken = take(coded, pass); !taken) return taken.error();
  }
  if (together) {
    auto done = setting_.gathered_mean.add_read(compressor(), share());
    if (done) done = conclude_all();
    if (!done) return done;
  }
  return expect_all_taken();
}

/// Passes the payloads of one tensor to the compressor and, in the last pass, makes the mean of them.
Result<void> GatheringRound::take(std::size_t coded, std::uint32_t pass) {
  const auto parameter = parameters_[coded];
  const Round round = round_of(parameter, pass);
  if (auto absorbed = compressor().absorb(results_, round); !absorbed) {
    return setting_.of_parameter(absorbed.error(), parameter);
  }
  if (pass != last_pass()) return {};
  if (makes_means_there()) {
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

GatheredMean::Payloads GatheringRound::payloads_of(std::size_t coded, const Round& round) const {
  return {.of_ranks = results_,
          .round = round,
          .share = share(),
          .sent = compressor().traits().sparse ? &own_entries_[coded] : nullptr};
}

/// The factor of each rank in a mean.
float GatheringRound::share() const { return 1 / static_cast<float>(setting_.world); }

}  // namespace weir::training
