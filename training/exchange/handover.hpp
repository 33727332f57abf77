#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "training/exchange/coded_round.hpp"

namespace weir::training {

/// What the state of an exchange depends on besides its parameters. An exchange with the same layout takes the state as
/// it is.
struct Layout {
  std::uint32_t world = 1;  ///< how many ranks encode
  bool encodes = true;      ///< this rank does
  std::uint32_t owners = 0;
  bool regions = false;                       ///< what they own are regions, not shares
  bool hops = false;                          ///< what they own comes to them by hops
  std::vector<std::uint32_t> bucket_of = {};  ///< by parameter

  friend bool operator==(const Layout&, const Layout&) = default;
};

Layout layout_of(const RoundSetting& setting, std::span<const std::uint32_t> bucket_of);

/// The layout as a part of the exchange's state.
NamedTensor saved(const Layout& layout);
/// The layout in a state; none if nothing was encoded. Fails with: malformed.
Result<std::optional<Layout>> layout_in(std::span<const NamedTensor> state);

/// Makes what the ranks had not sent, when an exchange of another layout saved `state`, part of what they have not sent
/// in this one: of the memories, which are restored already, and of owners. The mean of it stays the same; what goes to
/// another rank goes within a host. The same is done with momenta, but those that are the same on all ranks that have
/// encoded, as their tensors have only gone dense, become the same on all ranks, and so do the learning rates that
/// memories remember. Thresholds and regions begin anew and, where others encode, compressors that may
/// (Traits::begins_anew). All ranks must call it together. Fails with: conflict (it would get lost; says what has to be
/// as it was), malformed, and with what the group fails with.
Result<void> hand_over(collectives::Fabric& fabric, const RoundSetting& setting, const Layout& before,
                       std::span<const NamedTensor> state);

}  // namespace weir::training
