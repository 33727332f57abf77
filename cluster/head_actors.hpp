#pragma once

#include "cluster/cluster_head.hpp"
#include "protocol/accounts.hpp"
#include "runtime/actor.hpp"

namespace weir::cluster {

/// The answer to a refused call.
template <class T>
net::awaitable<Result<T>> refuse(Error why) {
  co_return why;
}

/// The interface that node agents call. Refuses callers that have not proven that they know the secret of nodes.
class MembershipActor final : public runtime::Actor<protocol::Membership> {
 public:
  explicit MembershipActor(ClusterHead& head) : head_(head) {}
  net::awaitable<Result<void>> check_version(std::string node_name, std::string version) override {
    if (!from_node()) return refuse<void>(no_node());
    return head_.check_version(std::move(node_name), std::move(version));
  }
  net::awaitable<Result<protocol::NodeWelcome>> join(protocol::NodeInfo info,
                                                     runtime::ActorRef<protocol::NodeAgent> agent) override {
    if (!from_node()) return refuse<protocol::NodeWelcome>(no_node());
    return head_.join(std::move(info), std::move(agent));
  }
  net::awaitable<Result<void>> heartbeat(protocol::NodeHeartbeat beat) override {
    if (!from_node()) return refuse<void>(no_node());
    return head_.heartbeat(std::move(beat));
  }
  net::awaitable<Result<void>> worker_exited(protocol::WorkerExit exit) override {
    if (!from_node()) return refuse<void>(no_node());
    return head_.worker_exited(std::move(exit));
  }
  net::awaitable<Result<void>> output(protocol::OutputBatch batch) override {
    if (!from_node()) return refuse<void>(no_node());
    return head_.output(std::move(batch));
  }

 private:
  bool from_node() const { return caller() == nullptr || caller()->account == protocol::accounts::node; }
  static Error no_node() { return {Errc::unauthenticated, "only nodes may ask for this"}; }

  ClusterHead& head_;
};

/// The interface that workers call. Refuses callers that have not proven that they know the secret of the job that the
/// call is about.
class CoordinatorActor final : public runtime::Actor<protocol::Coordinator> {
 public:
  explicit CoordinatorActor(ClusterHead& head) : head_(head) {}
  net::awaitable<Result<void>> worker_up(std::string worker_id, runtime::ActorRef<protocol::Worker> worker) override {
    // A worker may announce only itself, since the head will ask the announced worker to train.
    if (caller() == nullptr || caller()->process != worker.address().process) return refuse<void>(another_job());
    return head_.worker_up(caller()->account, std::move(worker_id), std::move(worker));
  }
  net::awaitable<Result<void>> report(protocol::Report report) override {
    if (!from_worker_of(report.job_id)) return refuse<void>(another_job());
    return head_.report(std::move(report));
  }
  net::awaitable<Result<void>> checkpoint(protocol::CheckpointPiece piece) override {
    if (!from_worker_of(piece.job_id)) return refuse<void>(another_job());
    return head_.checkpoint(std::move(piece));
  }
  net::awaitable<Result<Segment>> resume(protocol::ResumeRequest request) override {
    if (!from_worker_of(request.job_id)) return refuse<Segment>(another_job());
    return head_.resume(std::move(request));
  }
  net::awaitable<Result<void>> ended(protocol::TrainingEnd end) override {
    if (!from_worker_of(end.job_id)) return refuse<void>(another_job());
    return head_.ended(std::move(end));
  }

  static Error another_job() { return {Errc::unauthenticated, "only the workers of a job may speak for it"}; }

 private:
  bool from_worker_of(const std::string& job_id) const {
    return caller() == nullptr || caller()->account == protocol::accounts::job(job_id);
  }

  ClusterHead& head_;
};

}  // namespace weir::cluster
