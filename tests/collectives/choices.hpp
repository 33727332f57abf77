#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "collectives/topologies/catalog.hpp"

namespace weir::collectives::testing {

/// A topology with its options.
struct Choice {
  const TopologyType* type;
  std::uint32_t servers = 0;

  std::unique_ptr<Collective> make(Communicator& group) const {
    return type->make(group, {.name = {}, .servers = servers});
  }
  std::string name() const {
    const std::string name(type->name);
    return servers == 0 ? name : name + "_" + std::to_string(servers);
  }
  friend void PrintTo(const Choice& choice, std::ostream* out) { *out << choice.name(); }
};

/// Each topology, and those with servers with one server, and with fewer servers than there are ranks.
inline std::vector<Choice> all_choices() {
  std::vector<Choice> all;
  for (const TopologyType& type : topologies()) {
    all.push_back({&type});
    if (!type.has_servers) continue;
    for (const std::uint32_t servers : {1U, 2U, 3U}) all.push_back({&type, servers});
  }
  return all;
}

}  // namespace weir::collectives::testing
