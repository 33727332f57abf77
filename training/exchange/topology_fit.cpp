#include "training/exchange/topology_fit.hpp"

#include "compressors/memories/misfit.hpp"

namespace weir::training {

std::optional<std::string> topology_misfit(const collectives::TopologyType& topology,
                                           const compressors::Compressor& compressor) {
  using collectives::Gathers;
  switch (topology.gathers) {
    case Gathers::all: return std::nullopt;
    case Gathers::owners: return compressors::no_owners(compressor.traits());
    case Gathers::regions: return compressors::no_regions(compressor.traits());
    case Gathers::partners: return compressors::no_hops(compressor);
  }
  return std::nullopt;
}

}  // namespace weir::training
