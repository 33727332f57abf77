#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/job_spec.hpp"
#include "protocol/resources.hpp"

/// Where a job's workers go. Pure functions: the head asks them whenever something changed.
namespace weir::cluster {

/// What a node has to give.
struct NodeOffer {
  std::string id;
  std::string name;
  protocol::Resources total;
  protocol::Resources free;
  bool open = true;  ///< false: draining, takes nothing new
};

/// What a job asks for: all of it at once or nothing.
struct Gang {
  std::uint32_t workers = 1;
  protocol::Resources per_worker;
  protocol::Placement placement = protocol::Placement::pack;
};

struct PlacementResult {
  std::vector<std::string> nodes;  ///< node id by rank; empty if the gang does not fit now
  std::string reason;              ///< if not: what each node lacks, and the smallest change that would fit
  bool possible = true;            ///< it would fit if the open nodes were empty: waiting may help
  bool fits() const { return !nodes.empty(); }
};

/// pack fills as few nodes as possible, spread as many as possible; ranks of one node are neighbours either way. The
/// same input gives the same answer: ties go to the first node in `nodes`.
PlacementResult place(const Gang& gang, std::span<const NodeOffer> nodes);

/// "cpu=2 memory=8GiB", for messages.
std::string to_text(const protocol::Resources& resources);

}  // namespace weir::cluster
