#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/errc.hpp"
#include "collectives/communicator.hpp"
#include "collectives/transports/in_process.hpp"
#include "collectives/transports/mesh.hpp"

namespace weir::collectives::testing {

/// Only a guard: nothing in these tests waits for it to pass.
inline constexpr std::chrono::seconds guard{60};

inline Group group_of(std::uint32_t rank, std::uint32_t size, std::uint32_t lanes = 2) {
  return {.job_id = "job-1", .attempt = 7, .secret = "between us", .rank = rank, .size = size, .lanes = lanes};
}

/// Calls `body` once per rank, each on a thread of its own, and waits for all.
inline void on_every_rank(std::uint32_t size, const std::function<void(std::uint32_t)>& body) {
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
}

inline std::vector<std::unique_ptr<Mesh>> bind_all(std::uint32_t size) {
  std::vector<std::unique_ptr<Mesh>> meshes;
  for (std::uint32_t rank = 0; rank < size; ++rank) meshes.push_back(Mesh::bind("127.0.0.1").value());
  return meshes;
}

inline std::vector<Peer> addresses(const std::vector<std::unique_ptr<Mesh>>& meshes) {
  std::vector<Peer> peers;
  for (const auto& mesh : meshes) peers.push_back({"127.0.0.1", mesh->port()});
  return peers;
}

/// What one rank does. It is called on the thread of the rank's loop.
using Body = std::function<Task<>(Communicator& group)>;

/// The ranks of a group, all in this process.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual std::uint32_t size() const = 0;
  /// Destroys a rank's communicator without close(): from now on run() leaves it out.
  virtual void lose(std::uint32_t rank) = 0;

  /// Runs `body` on every rank, side by side, and returns how it ended on each.
  virtual std::vector<Result<void>> run(const Body& body) = 0;
};

class InProcessRanks final : public Ranks {
 public:
  InProcessRanks(std::uint32_t size, const NetworkModel& model, Loss loss)
      : network_(InProcessNetwork::make(size, 1, model, loss)) {
    for (std::uint32_t rank = 0; rank < size; ++rank) communicators_.push_back(network_->communicator(rank));
  }

  std::uint32_t size() const override { return static_cast<std::uint32_t>(communicators_.size()); }
  std::vector<Result<void>> run(const Body& body) override {
    std::vector<std::optional<Task<>>> tasks(size());
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      if (communicators_[rank]) tasks[rank] = body(*communicators_[rank]);
    }
    for (auto& task : tasks) {
      if (task) task->start();
    }
    network_->run_while_busy();
    std::vector<Result<void>> results(size());
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      if (!tasks[rank]) continue;
      results[rank] = tasks[rank]->done() ? tasks[rank]->take_result() : Error{Errc::deadline_exceeded, "stuck"};
    }
    return results;
  }
  void lose(std::uint32_t rank) override { communicators_[rank].reset(); }

  InProcessNetwork& network() { return *network_; }

 private:
  std::unique_ptr<InProcessNetwork> network_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

/// Ranks with a loop and a thread each, connected by sockets or through shared memory.
class MeshRanks final : public Ranks {
 public:
  MeshRanks(std::uint32_t size, Loss loss, bool shared_memory) : fabrics_(size) {
    auto meshes = bind_all(size);
    const auto peers = addresses(meshes);
    on_every_rank(size, [&](std::uint32_t rank) {
      Group own = group_of(rank, size);
      own.loss = loss;
      own.shared_memory = shared_memory;
      auto joined = meshes[rank]->join(own, peers, guard);
      ASSERT_TRUE(joined) << joined.error().message();
      fabrics_[rank] = std::move(*joined);
    });
  }

  std::uint32_t size() const override { return static_cast<std::uint32_t>(fabrics_.size()); }
  std::vector<Result<void>> run(const Body& body) override {
    std::vector<Result<void>> results(size());
    on_every_rank(size(), [&](std::uint32_t rank) {
      if (!fabrics_[rank]) return;
      results[rank] = fabrics_[rank]->thread().run([&] { return body(fabrics_[rank]->lane(0)); });
    });
    return results;
  }
  void lose(std::uint32_t rank) override { fabrics_[rank].reset(); }

 private:
  std::vector<std::unique_ptr<Fabric>> fabrics_;
};

/// A transport by name, for parameterized tests.
struct Transport {
  const char* name;
  std::unique_ptr<Ranks> (*make)(std::uint32_t size, Loss loss);
};

inline std::unique_ptr<Ranks> at_once(std::uint32_t size, Loss loss) {
  return std::make_unique<InProcessRanks>(size, NetworkModel{}, loss);
}
/// Frames of different links overtake each other, and little fits on the way.
inline std::unique_ptr<Ranks> delayed(std::uint32_t size, Loss loss) {
  const NetworkModel model{.latency_seconds = 1e-3,
                           .jitter_seconds = 5e-3,
                           .bytes_per_second = 1e8,
                           .window_bytes = 100'000,
                           .seed = size,
                           .ranks_per_host = 2};
  return std::make_unique<InProcessRanks>(size, model, loss);
}
inline std::unique_ptr<Ranks> tcp(std::uint32_t size, Loss loss) {
  return std::make_unique<MeshRanks>(size, loss, /*shared_memory=*/false);
}
inline std::unique_ptr<Ranks> shared_memory(std::uint32_t size, Loss loss) {
  return std::make_unique<MeshRanks>(size, loss, /*shared_memory=*/true);
}

inline const Transport transports[] = {
    {"in_process", at_once}, {"delayed", delayed}, {"tcp", tcp}, {"shared_memory", shared_memory}};

inline std::string transport_name(const ::testing::TestParamInfo<Transport>& info) { return info.param.name; }

/// Receives and keeps a message of up to 64 MB.
class Keep final : public Receiver {
 public:
  Result<void> begin(std::uint64_t message_bytes) override {
    if (message_bytes > 64'000'000) return Error{Errc::malformed, "too long"};
    bytes.resize(message_bytes);
    return {};
  }
  std::span<std::byte> place(std::uint64_t offset, std::size_t size) override {
    return std::span(bytes).subspan(offset, size);
  }
  void arrived(std::uint64_t, BytesView) override { ++pieces; }

  Bytes bytes;
  std::size_t pieces = 0;
};

/// Sends one message and receives one, at the same time.
inline Task<> exchange(Communicator& group, std::uint32_t to, BytesView message, std::uint32_t from,
                       Receiver& receiver) {
  Send sent(group, to, {}, message);
  Receive arrival(group, from, {}, receiver);
  if (auto done = co_await arrival; !done) co_return done.error();
  co_return co_await sent;
}

}  // namespace weir::collectives::testing
