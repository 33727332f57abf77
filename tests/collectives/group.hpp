#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/errc.hpp"
#include "collectives/in_process.hpp"
#include "collectives/tcp_mesh.hpp"

namespace weir::collectives::testing {

using Communicators = std::vector<std::unique_ptr<Communicator>>;

/// Only a guard: nothing in these tests waits for it to pass.
inline constexpr std::chrono::seconds guard{60};

inline Group group_of(std::uint32_t rank, std::uint32_t size) {
  return {.job_id = "job-1", .attempt = 7, .secret = "between us", .rank = rank, .size = size};
}

/// Calls `body` once per rank, each on a thread of its own, and waits for all.
inline void on_every_rank(std::uint32_t size, const std::function<void(std::uint32_t)>& body) {
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
}

inline std::vector<std::unique_ptr<TcpMesh>> bind_all(std::uint32_t size) {
  std::vector<std::unique_ptr<TcpMesh>> meshes;
  for (std::uint32_t rank = 0; rank < size; ++rank) meshes.push_back(TcpMesh::bind("127.0.0.1").value());
  return meshes;
}

inline std::vector<Peer> addresses(const std::vector<std::unique_ptr<TcpMesh>>& meshes) {
  std::vector<Peer> peers;
  for (const auto& mesh : meshes) peers.push_back({"127.0.0.1", mesh->port()});
  return peers;
}

inline Communicators tcp_group(std::uint32_t size) {
  auto meshes = bind_all(size);
  const auto peers = addresses(meshes);
  Communicators group(size);
  on_every_rank(size, [&](std::uint32_t rank) {
    auto joined = meshes[rank]->join(group_of(rank, size), peers, guard);
    if (joined) group[rank] = std::move(*joined);
    EXPECT_TRUE(joined) << joined.error().message();
  });
  return group;
}

/// A transport by name, for parameterized tests.
struct Transport {
  const char* name;
  Communicators (*make)(std::uint32_t size);
};

inline const Transport transports[] = {{"tcp", tcp_group}, {"in_process", in_process_group}};

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

}  // namespace weir::collectives::testing
