#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cluster/gpu_booking.hpp"
#include "protocol/job_spec.hpp"
#include "protocol/resources.hpp"
#include "protocol/roles.hpp"

/// Placement of a job's workers on nodes. Pure functions, called by the head whenever something has changed.
namespace weir::cluster {

/// The resources that a node offers.
struct NodeOffer {
  std::string id;
  std::string name;
  protocol::Resources total;
  protocol::Resources free;
  bool open = true;  ///< false: draining, takes nothing new
  std::map<std::string, std::string> labels;
  std::vector<std::uint32_t> gpus = {};  ///< their indices; empty: gpu is an amount like any other
  GpuRoom gpus_total = {};               ///< in that order, of the idle node
  GpuRoom gpus_free = {};
  std::vector<std::uint32_t> gpus_lost = {};  ///< the indices of those that are not there any more
};

/// The processes of a job: it gets room for all of them at once or none.
struct Gang {
  /// Equal processes.
  struct Group {
    std::uint32_t count = 1;
    protocol::Resources each;
    std::map<std::string, std::string> labels = {};  ///< a node takes them only if it has each of these
    protocol::Role role = protocol::Role::worker;

    friend bool operator==(const Group&, const Group&) = default;
    friend auto operator<=>(const Group&, const Group&) = default;
  };
  std::vector<Group> groups;  ///< in the order of ranks, which is that of their placement
  protocol::Placement placement = protocol::Placement::pack;

  friend bool operator==(const Gang&, const Gang&) = default;
  friend auto operator<=>(const Gang&, const Gang&) = default;  ///< any order, for sets of gangs
};

struct PlacementResult {
  std::vector<std::string> nodes;  ///< node id by rank; empty if the gang does not fit now
  bool possible = true;            ///< it would fit if the open nodes were empty: waiting may help
  bool fits() const { return !nodes.empty(); }
};

/// Places a gang: its groups one after the other, each into the room that those before it leave. pack uses as few nodes
/// as possible for a group, spread as many as possible; ranks of a group on one node are consecutive in both. A group
/// is not moved to make room for a later one. The same input gives the same result: ties go to the first node in
/// `nodes`.
PlacementResult place(const Gang& gang, std::span<const NodeOffer> nodes);

/// Explains why a gang does not fit now: what the first nodes lack for the first group without room and, if it would
/// not fit the idle cluster either, the smallest changes with which that group would. The length of the text does not
/// grow with the cluster.
std::string explain(const Gang& gang, std::span<const NodeOffer> nodes);

/// The greatest amount of one resource per process with which a group would fit the idle cluster, all else as asked; 0
/// if no amount would help.
double greatest_fitting(const Gang::Group& group, std::span<const NodeOffer> nodes, const std::string& resource);

/// "cpu=2 memory=8GiB", for messages.
std::string to_text(const protocol::Resources& resources);

}  // namespace weir::cluster
