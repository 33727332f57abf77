#include "cluster/attempt/process_table.hpp"

#include <algorithm>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"

namespace weir::cluster {

std::string describe(const Process& process) {
  const WorkerRecord& record = process.record;
  std::string text = protocol::process_name(record.role, process.number) + " on node " + record.node;
  if (record.pid != 0) text += " (process " + std::to_string(record.pid) + ")";
  return text;
}

ProcessTable::ProcessTable(Services& services, NodeTable& nodes, const std::string& job_id,
                           const protocol::RoleGroups& groups, const std::vector<std::string>& node_ids,
                           std::function<void()> on_room)
    : services_(services), nodes_(nodes), on_room_(std::move(on_room)), processes_(node_ids.size()) {
  ensure(protocol::members_of(groups) == processes_.size(), "each process is placed on a node");
  std::uint32_t rank = 0;
  for (const auto& group : groups) {
    for (std::uint32_t number = 0; number < group.count; ++number, ++rank) {
      place(rank, number, group, job_id, nodes_.find(node_ids[rank]));
    }
  }
}

void ProcessTable::place(std::uint32_t rank, std::uint32_t number, const protocol::RoleGroup& group,
                         const std::string& job_id, const NodeTable::Node* node) {
  ensure(node != nullptr, "a gang is placed on nodes that exist");
  Process& process = processes_[rank];
  process.number = number;
  process.resources = group.each;
  process.record.id = services_.new_id();
  process.record.job_id = job_id;
  process.record.rank = rank;
  process.record.role = group.role;
  process.record.node_id = node->record.id;
  process.record.node = node->record.name;
  process.agent = node->agent;
  process.record.gpus = nodes_.grant(process.record.node_id, process.record.id, job_id, group.each);
  ranks_.emplace(process.record.id, rank);
}

std::string ProcessTable::names_of(const std::function<bool(const Process&)>& predicate) const {
  std::string names;
  for (const Process& process : processes_) {
    if (predicate(process)) names += (names.empty() ? "" : ", ") + describe(process);
  }
  return names;
}

const Process* ProcessTable::find(const std::string& worker_id) const {
  const auto found = ranks_.find(worker_id);
  return found == ranks_.end() ? nullptr : &processes_[found->second];
}

Process* ProcessTable::find(const std::string& worker_id) {
  return const_cast<Process*>(std::as_const(*this).find(worker_id));
}

Result<void> ProcessTable::come_up(Process& process, runtime::ActorRef<protocol::Worker> actor) {
  if (process.actor && process.actor.address().process != actor.address().process) {
    return Error{Errc::conflict, "worker " + process.record.id + " is another process"};
  }
  process.actor = std::move(actor);
  process.link_broken.reset();
  return {};
}

void ProcessTable::let_go(Process& process) {
  process.gone = true;
  process.record.state = WorkerState::exited;
  process.record.ended_at = services_.now();
  nodes_.release(process.record.node_id, process.record.id);
  on_room_();
}

}  // namespace weir::cluster
