#pragma once

#include "training/exchange/coded_round.hpp"

namespace weir::training {

/// A round in which payloads are added up on their way, or every rank receives and decodes those of all.
class GatheringRound final : public CodedRound {
 public:
  GatheringRound(const RoundSetting& setting, const Bucket& bucket)
      : CodedRound(setting, bucket, whole_parameters(setting.parameters, bucket), /*by_owners=*/false, {}) {}

 private:
  Result<void> decode_gathered(std::uint32_t pass) override;
  Result<void> take(std::size_t coded, std::uint32_t pass);
  Result<void> average(std::size_t coded, const compressors::Round& round);
  GatheredMean::Payloads payloads_of(std::size_t coded, const compressors::Round& round) const;
  float share() const;
};

}  // namespace weir::training
