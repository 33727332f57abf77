#include "bench/place.hpp"

#include <charconv>

#include "base/errc.hpp"

namespace weir::bench {

Result<Place> place_of(const PlaceOptions& options) {
  Place place;
  if (!options.rank && options.peers.empty()) return place;
  place.rank = options.rank;
  if (!options.rank || *options.rank >= options.peers.size()) {
    return Error{Errc::invalid_argument, "--rank needs --peers with the addresses of all ranks, its own among them"};
  }
  for (const auto& peer : options.peers) {
    const auto colon = peer.rfind(':');
    std::uint16_t port = 0;
    const auto* end = peer.data() + peer.size();
    const bool is_port = colon != std::string::npos && std::from_chars(peer.data() + colon + 1, end, port).ptr == end;
    if (!is_port || port == 0) return Error{Errc::invalid_argument, "not HOST:PORT: " + peer};
    place.peers.push_back({peer.substr(0, colon), port});
  }
  return place;
}

}  // namespace weir::bench
