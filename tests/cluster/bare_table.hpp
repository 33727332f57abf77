#pragma once

#include "cluster/node_table.hpp"
#include "tests/cluster/bare_services.hpp"

namespace weir::cluster {

/// A table of nodes on virtual time, without a head, a store or a stream around it.
struct BareTable {
  runtime::testing::Simulation simulation{1};
  Services services = bare_services(simulation);
  NodeTable nodes{services};

  /// The first heartbeat, or a later one, of a node.
  Result<NodeTable::Heard> beat(const NodeRecord& node, std::vector<protocol::GpuState> gpus = {}) {
    protocol::NodeHeartbeat beat;
    beat.node_id = node.id;
    beat.lease_id = node.lease_id;
    beat.gpus = std::move(gpus);
    return nodes.heartbeat(beat);
  }
};

}  // namespace weir::cluster
