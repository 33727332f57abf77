#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "protocol/checkpoint.hpp"
#include "ranks.hpp"
#include "tests/protocol/part_of.hpp"
#include "training/modes/mode.hpp"
#include "training/servers/server.hpp"

namespace weir::training::testing {

/// What a rank tells of a job with servers.
class Told final : public Progress {
 public:
  bool stop_wanted() const override { return stop_ || (stops_once_begun && std::exchange(asked_, true)); }
  Result<void> step_done(const Replica& replica, const StepRecord& record) override {
    records.push_back(record);
    return on_step ? on_step(replica, record) : Result<void>();
  }
  Result<void> keep(std::uint64_t step, Bytes share) override {
    shares[step] = Segment::own(std::move(share));
    return {};
  }
  Result<void> evaluate(std::uint64_t step, Bytes model) override {
    models[step] = Segment::own(std::move(model));
    return {};
  }
  Result<void> served(const ServedRecord& record) override {
    served_records.push_back(record);
    if (record.step == stop_after) stop_ = true;
    if (on_served) on_served(record);
    return {};
  }

  std::vector<StepRecord> records;
  std::vector<ServedRecord> served_records;
  std::map<std::uint64_t, Segment> shares;  ///< by step
  std::map<std::uint64_t, Segment> models;  ///< by step
  std::uint64_t stop_after = 0;             ///< of a server
  bool stops_once_begun = false;            ///< of a server: whenever it is asked after the beginning
  std::function<Result<void>(const Replica&, const StepRecord&)> on_step;
  std::function<void(const ServedRecord&)> on_served;

 private:
  std::atomic<bool> stop_ = false;
  mutable bool asked_ = false;  ///< by the server's thread alone
};

/// A job in threads of this process: workers and servers, by rank.
class ServedJob {
 public:
  ServedJob(const protocol::JobSpec& spec, std::uint32_t workers)
      : spec_(spec),
        workers_(workers),
        servers_(spec.training.mode.params.value("servers", 1U)),
        told(workers + servers_),
        results(workers + servers_, Result<bool>(false)),
        replicas(workers),
        servers(servers_) {
    for (auto& one : told) one = std::make_unique<Told>();
    group = collectives::in_process_group(ranks());
  }
  ~ServedJob() {
    replicas.clear();
    servers.clear();
  }

  std::uint32_t ranks() const { return workers_ + servers_; }
  Told& first_server() { return *told[workers_]; }

  /// Makes the ranks, restores them, and has them join.
  void prepare(const Segment& checkpoint = {}) {
    run_ranks(ranks(), [&](std::uint32_t rank) {
      Result<void> done;
      if (rank < workers_) {
        auto& replica = replicas[rank] = Replica::make(spec_, rank, workers_, servers_, device).value();
        if (!checkpoint.empty()) done = replica->restore(protocol::testing::part_of(checkpoint, rank));
        ASSERT_TRUE(done) << done.error().message();
        done = replica->join(*group[rank]);
      } else {
        auto& server = servers[rank - workers_] = servers::Server::make(spec_, place(rank)).value();
        if (!checkpoint.empty())
          done = server->restore(protocol::testing::part_of(checkpoint, rank, protocol::Role::server));
        ASSERT_TRUE(done) << done.error().message();
        done = server->join(*group[rank]);
      }
      ASSERT_TRUE(done) << done.error().message();
    });
  }

  /// Has one rank do its work to the end.
  void run_rank(std::uint32_t rank) {
    if (rank < workers_) {
      results[rank] = replicas[rank]->mode->train(*replicas[rank], *told[rank]);
      replicas[rank]->mode.reset();  // with its end of the group
    } else {
      results[rank] = servers[rank - workers_]->serve(*told[rank]);
    }
    if (results[rank]) group[rank]->close();
  }

  /// All of it; every rank has to succeed.
  ServedJob& run(const Segment& checkpoint = {}) {
    prepare(checkpoint);
    run_ranks(ranks(), [&](std::uint32_t rank) { run_rank(rank); });
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      EXPECT_TRUE(results[rank]) << "rank " << rank << ": " << results[rank].error().message();
    }
    return *this;
  }

  /// The checkpoint of a step.
  Segment checkpoint(std::uint64_t step) const {
    std::vector<Segment> shares;
    for (const auto& one : told) shares.push_back(one->shares.at(step));
    return Segment::own(protocol::join_checkpoint(shares).value().whole());
  }

  servers::Place place(std::uint32_t rank) const { return {rank - workers_, workers_, servers_}; }

 private:
  const protocol::JobSpec spec_;
  const std::uint32_t workers_;
  const std::uint32_t servers_;

 public:
  at::Device device = at::kCPU;  ///< of the workers
  Group group;
  std::vector<std::unique_ptr<Told>> told;
  std::vector<Result<bool>> results;
  std::vector<std::unique_ptr<Replica>> replicas;
  std::vector<std::unique_ptr<servers::Server>> servers;
};

/// The small job in a mode with servers.
inline protocol::JobSpec served_job(const std::string& mode, nlohmann::json params,
                                    const std::string& compressor = "none") {
  auto spec = small_job(compressor);
  if (compressor == "qsgd") spec.compression.compressor.params = {};
  spec.training.mode = {mode, std::move(params)};
  return spec;
}

}  // namespace weir::training::testing
