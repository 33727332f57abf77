#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors/parameter_server.hpp"
#include "actors/state_server.hpp"
#include "actors/trainer.hpp"
#include "office.hpp"
#include "protocol/checkpoint.hpp"
#include "runtime/actor_system.hpp"
#include "runtime/tcp_transport.hpp"
#include "tests/protocol/part_of.hpp"

namespace weir::actors::testing {

/// Trainers of one job and their head, in one process.
class Cluster {
 public:
  /// The last ranks have the role `behind`.
  explicit Cluster(std::uint32_t ranks, std::uint32_t servers = 0, protocol::Role behind = protocol::Role::server)
      : servers_(servers),
        behind_(behind),
        transport_(runtime::make_tcp_transport(io_.get_executor())),
        system_(
            {.name = "test", .executor = io_.get_executor(), .clock = clock_, .transport = *transport_, .secret = "s"}),
        work_(net::make_work_guard(io_)),
        thread_([this] { io_.run(); }) {
    const auto office = system_.spawn<Office>("coordinator", book).value();
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const auto name = "trainer" + std::to_string(rank);
      const auto head = office.as<protocol::Coordinator>();
      if (rank + servers < ranks) {
        trainers_.push_back(system_.spawn<Trainer>(name, head).value().as<protocol::Training>().within(patience));
      } else if (behind == protocol::Role::state_server) {
        trainers_.push_back(system_.spawn<StateServer>(name, head).value().as<protocol::Training>().within(patience));
      } else {
        trainers_.push_back(
            system_.spawn<ParameterServer>(name, head).value().as<protocol::Training>().within(patience));
      }
    }
  }
  ~Cluster() {
    await(system_.stop());
    work_.reset();
  }

  template <class T>
  T await(net::awaitable<T> task) {
    auto future = net::co_spawn(io_, std::move(task), net::use_future);
    if (future.wait_for(patience) != std::future_status::ready) std::abort();
    return future.get();
  }

  protocol::Assignment assignment(const nlohmann::json& spec, std::uint32_t rank) const {
    return {.job_id = "job",
            .spec = spec.dump(),
            .rank = rank,
            .world = members() - servers_,
            .members = members(),
            .role = role_of(rank),
            .attempt = 1,
            .group_secret = "group",
            .listen_host = "127.0.0.1",
            .resume_bytes = book.resume_from.contains(rank) ? book.resume_from.at(rank).size() : 0};
  }

  /// Has every rank go on from its part of this checkpoint.
  void resume_from(const Segment& checkpoint) {
    for (std::uint32_t rank = 0; rank < members(); ++rank) {
      book.resume_from[rank] = protocol::testing::part_of(checkpoint, rank, role_of(rank));
    }
  }

  /// Prepares and starts every rank.
  void start(const nlohmann::json& spec) {
    std::vector<protocol::RankEndpoint> peers;
    for (std::uint32_t rank = 0; rank < trainers_.size(); ++rank) {
      const auto prepared = await(trainers_[rank].call<&protocol::Training::prepare>(assignment(spec, rank)));
      ASSERT_TRUE(prepared) << prepared.error().message();
      steps_total = std::max(steps_total, prepared->steps_total);
      peers.push_back(prepared->endpoint);
    }
    std::vector<std::future<Result<void>>> starts;
    for (auto& trainer : trainers_) {
      starts.push_back(net::co_spawn(io_, trainer.call<&protocol::Training::start>(peers), net::use_future));
    }
    for (auto& started : starts) {
      const auto result = started.get();
      ASSERT_TRUE(result) << result.error().message();
    }
  }

  bool wait_for_ends() {
    return book.wait([this] { return book.ends.size() == trainers_.size(); });
  }

  runtime::ActorRef<protocol::Training>& trainer(std::uint32_t rank) { return trainers_[rank]; }
  void kill(std::uint32_t rank) { system_.stop_actor(trainers_[rank].address().actor); }

  Office::Book book;
  std::uint64_t steps_total = 0;

 private:
  protocol::Role role_of(std::uint32_t rank) const {
    return rank + servers_ < members() ? protocol::Role::worker : behind_;
  }
  std::uint32_t members() const { return static_cast<std::uint32_t>(trainers_.size()); }

  const std::uint32_t servers_;
  const protocol::Role behind_;
  net::io_context io_{1};
  runtime::SystemClock clock_;
  std::unique_ptr<runtime::Transport> transport_;
  runtime::ActorSystem system_;
  std::vector<runtime::ActorRef<protocol::Training>> trainers_;
  net::executor_work_guard<net::io_context::executor_type> work_;
  std::jthread thread_;
};

inline std::map<std::string, std::vector<protocol::MetricPoint>> series(const std::vector<protocol::Report>& reports) {
  std::map<std::string, std::vector<protocol::MetricPoint>> all;
  for (const auto& report : reports) {
    for (const auto& point : report.points) all[point.name].push_back(point);
  }
  return all;
}

inline Segment joined(const std::map<std::uint32_t, Segment>& shares) {
  std::vector<Segment> list;
  for (const auto& [rank, share] : shares) list.push_back(share);
  return Segment::own(protocol::join_checkpoint(list).value().whole());
}

}  // namespace weir::actors::testing
