#include "training/exchange/route.hpp"

#include "collectives/topologies/catalog.hpp"

namespace weir::training {

std::string_view name_of(Form form) {
  if (form == Form::float32) return "float32";
  return form == Form::bfloat16 ? "bfloat16" : "coded";
}

std::string_view topology_of(const Route& route) { return collectives::all_topologies()[route.topology].name; }

}  // namespace weir::training
