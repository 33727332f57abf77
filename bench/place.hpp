#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "collectives/transports/mesh.hpp"

namespace weir::bench {

/// Which ranks this process is, for measurements over a real network with one process per host: its own rank, and the
/// addresses "HOST:PORT" of all ranks in rank order. Without them all ranks run as threads of this process.
struct PlaceOptions {
  std::optional<std::uint32_t> rank;
  std::vector<std::string> peers;
};

/// The ranks of this process, and how all ranks reach each other.
struct Place {
  std::optional<std::uint32_t> rank;     ///< the only rank in this process; none: all ranks
  std::vector<collectives::Peer> peers;  ///< by rank; empty: loopback, with ports chosen by the system
};

/// Fails with: invalid_argument (a rank without an address, an address that is none).
Result<Place> place_of(const PlaceOptions& options);

}  // namespace weir::bench
