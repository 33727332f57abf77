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
  if (auto done = average(coded, round); !done) return done;
  const bool sparse = compressor().traits().sparse;
  return conclude(coded,
                  sparse ? Sent(own_entries_[coded]) : Sent(compressor(), own_payload(coded_pieces_[coded]), round));
}

/// Makes the mean of what the ranks sent.
Result<void> GatheringRound::average(std::size_t coded, Round round) {
  const auto parameter = parameters_[coded];
  Mean& mean = mean_of(parameter);
  if (auto restarted = restart(mean); !restarted) return setting_.of_parameter(restarted.error(), parameter);
  const GatheredMean::Payloads payloads{.of_ranks = results_,
                                        .round = round,
                                        .share = 1 / static_cast<float>(setting_.world),
                                        .sent = compressor().traits().sparse ? &own_entries_[coded] : nullptr};
  auto added = setting_.gathered_mean.add(compressor(), payloads, mean);
  return added ? added : setting_.of_parameter(added.error(), parameter);
}

}  // namespace weir::training
