// What nodes and workers tell the head.

#include "base/errc.hpp"
#include "cluster/cluster_head.hpp"
#include "cluster/head_actors.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto load_interval = 1s;  // between two publications of a node's load

Error nobody_waits(const std::string& what) { return {Errc::not_found, "nobody waits for " + what + " any more"}; }

protocol::NodeWelcome welcome(const NodeRecord& node, std::vector<std::string> workers) {
  return {.node_id = node.id,
          .lease_id = node.lease_id,
          .workers = std::move(workers),
          .heartbeat_milliseconds = NodeTable::heartbeat_milliseconds,
          .missed_heartbeats_max = NodeTable::missed_heartbeats_max,
          .lease_milliseconds = NodeTable::lease_milliseconds};
}

}  // namespace

// --- messages from nodes ---

net::awaitable<Result<void>> ClusterHead::check_version(std::string node_name, std::string version) {
  co_return nodes_.check_version(node_name, version);
}

net::awaitable<Result<protocol::NodeWelcome>> ClusterHead::join(protocol::NodeInfo info,
                                                                runtime::ActorRef<protocol::NodeAgent> agent) {
  return here(join_here(std::move(info), std::move(agent)));
}

net::awaitable<Result<protocol::NodeWelcome>> ClusterHead::join_here(protocol::NodeInfo info,
                                                                     runtime::ActorRef<protocol::NodeAgent> agent) {
  co_await removal_decided(info.name);
  if (stopping_) co_return Error{Errc::cancelled, "the head stops"};
  NodeTable::Node* known = nodes_.find(info.name);
  if (known != nullptr && known->record.state != NodeState::lost && known->incarnation == info.incarnation) {
    if (known->record.lease_id == info.lease_id) co_return rejoin(*known, info);
    known->process = 0;  // the caller's own: its link stays open for the answer
    lose(*known, "it joined again without what ran on it");
  }
  auto joined = nodes_.join(std::move(info), std::move(agent));
  if (!joined) co_return joined.error();
  const NodeRecord record = (*joined)->record;
  std::vector<Change> changes;
  changes.push_back(change::PutFence{record.lease_id});
  append_node_changes(changes, record, Severity::info, "node.joined",
                      "node " + record.name + " at " + record.host + " joined with " + to_text(record.resources));
  auto committed = co_await services_.store->commit(std::move(changes));
  if (!committed) co_return committed.error();
  co_return welcome(record, {});
}

/// For a node that has joined again within its lease after its link broke: its workers continue.
protocol::NodeWelcome ClusterHead::rejoin(NodeTable::Node& node, const protocol::NodeInfo& info) {
  auto kept = nodes_.rejoin(node, info);
  const NodeRecord record = node.record;
  std::vector<Change> changes;
  append_node_changes(
      changes, record, Severity::warning, "node.relinked",
      "node " + record.name + " has linked itself anew; " + std::to_string(kept.size()) + " workers there go on");
  tasks_.spawn("record", this->record(std::move(changes)));  // not awaited: nothing depends on it, and a lease runs
  return welcome(record, std::move(kept));
}

net::awaitable<Result<void>> ClusterHead::heartbeat(protocol::NodeHeartbeat beat) {
  return here(heartbeat_here(std::move(beat)));
}

net::awaitable<Result<void>> ClusterHead::heartbeat_here(protocol::NodeHeartbeat beat) {
  const auto heard = nodes_.heartbeat(beat);
  if (!heard) co_return heard.error();
  if (heard->offers_more) jobs_.dispatch();
  const bool at_once = heard->offers_more || !heard->gpus_lost.empty();
  note_gpus(beat.node_id, *heard);
  if (!services_.stream->followed(StreamKind::node, "")) co_return Result<void>();
  auto& shown = shown_[beat.node_id];
  if (const auto now = services_.clock.now(); at_once || now - shown >= load_interval) {
    shown = now;
    const auto record = with_workers(nodes_.find(beat.node_id)->record);
    std::vector<StreamItem> items;
    items.push_back({0, StreamKind::node, {}, to_text(to_json(record))});
    services_.stream->publish(items);
  }
  co_return Result<void>();
}

void ClusterHead::note_gpus(const std::string& node_id, const NodeTable::Heard& heard) {
  std::vector<Change> changes;
  const auto add = [&](const protocol::Gpu& gpu, Severity severity, const char* kind, const std::string& what) {
    const std::string& node = nodes_.find(node_id)->record.name;
    auto noted = services_.event({}, severity, kind, describe(gpu) + " of node " + node + what);
    noted.event.node = node;
    changes.push_back(std::move(noted));
  };
  for (const auto& gpu : heard.gpus_lost) {
    add(gpu, Severity::error, "node.gpu_lost", " is not there any more; nothing is placed on it");
  }
  for (const auto& gpu : heard.gpus_back) add(gpu, Severity::info, "node.gpu_back", " is there again");
  if (changes.empty()) return;
  tasks_.spawn("record", record(std::move(changes)));
  for (const auto& [id, run] : jobs_.running()) {
    run->gpus_lost(node_id, heard.gpus_lost);
    run->gpus_back(heard.gpus_back);
  }
}

net::awaitable<Result<void>> ClusterHead::worker_exited(protocol::WorkerExit exit) {
  return here(worker_exited_here(std::move(exit)));
}

net::awaitable<Result<void>> ClusterHead::worker_exited_here(protocol::WorkerExit exit) {
  if (const auto run = jobs_.run_of_worker(exit.job_id, exit.worker_id)) run->worker_exited(exit);
  co_return Result<void>();
}

net::awaitable<Result<void>> ClusterHead::output(protocol::OutputBatch batch) {
  return here(output_here(std::move(batch)));
}

net::awaitable<Result<void>> ClusterHead::output_here(protocol::OutputBatch batch) {
  const std::string node = batch.node_id;
  if (!output_under_way_.insert(node).second) {
    co_return Error{Errc::exhausted, "earlier output of this node is being written"};
  }
  try {
    auto taken = co_await jobs_.output(std::move(batch));
    output_under_way_.erase(node);
    co_return taken;
  } catch (...) {
    output_under_way_.erase(node);
    throw;
  }
}

// --- messages from workers ---

net::awaitable<Result<void>> ClusterHead::worker_up(std::string account, std::string worker_id,
                                                    runtime::ActorRef<protocol::Worker> worker) {
  return here(worker_up_here(std::move(account), std::move(worker_id), std::move(worker)));
}

net::awaitable<Result<void>> ClusterHead::worker_up_here(std::string account, std::string worker_id,
                                                         runtime::ActorRef<protocol::Worker> worker) {
  const auto run = jobs_.run_of_worker(worker_id);
  if (!run) co_return nobody_waits("worker " + worker_id);
  if (account != run->account()) co_return CoordinatorActor::another_job();
  co_return run->worker_up(worker_id, std::move(worker));
}

net::awaitable<Result<void>> ClusterHead::report(protocol::Report report) {
  return here(report_here(std::move(report)));
}

net::awaitable<Result<void>> ClusterHead::report_here(protocol::Report report) {
  const auto run = jobs_.run_of_job(report.job_id);
  if (!run) co_return nobody_waits("job " + report.job_id);
  co_return co_await run->report(std::move(report));
}

net::awaitable<Result<void>> ClusterHead::checkpoint(protocol::CheckpointPiece piece) {
  return here(checkpoint_here(std::move(piece)));
}

net::awaitable<Result<void>> ClusterHead::checkpoint_here(protocol::CheckpointPiece piece) {
  const auto run = jobs_.run_of_job(piece.job_id);
  if (!run) co_return nobody_waits("job " + piece.job_id);
  co_return run->checkpoint(piece);
}

net::awaitable<Result<Segment>> ClusterHead::resume(protocol::ResumeRequest request) {
  return here(resume_here(std::move(request)));
}

net::awaitable<Result<Segment>> ClusterHead::resume_here(protocol::ResumeRequest request) {
  const auto run = jobs_.run_of_job(request.job_id);
  if (!run) co_return nobody_waits("job " + request.job_id);
  co_return co_await run->resume(std::move(request));
}

net::awaitable<Result<void>> ClusterHead::ended(protocol::TrainingEnd end) { return here(ended_here(std::move(end))); }

net::awaitable<Result<void>> ClusterHead::ended_here(protocol::TrainingEnd end) {
  const auto run = jobs_.run_of_job(end.job_id);
  if (!run) co_return nobody_waits("job " + end.job_id);
  co_return run->ended(std::move(end));
}

}  // namespace weir::cluster
