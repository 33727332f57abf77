#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/transports/in_process.hpp"
#include "collectives/transports/mesh.hpp"
#include "protocol/job_spec.hpp"

namespace weir::training::testing {

using Group = std::vector<std::unique_ptr<collectives::Fabric>>;

/// Runs `body` once per rank, each on a thread of its own, and waits for all.
inline void run_ranks(std::uint32_t ranks, const std::function<void(std::uint32_t)>& body) {
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
}

/// For random numbers of one rank: LibTorch's own generator is shared by all threads, also by those of the other ranks.
inline at::Generator generator(std::uint64_t seed) { return at::detail::createCPUGenerator(seed); }

/// A group over sockets on loopback, or through shared memory. `hosts`: by rank, the number of the one that it counts
/// as on, from 0: each has an address of its own.
inline Group mesh_group(const std::vector<std::uint32_t>& hosts, bool shared_memory) {
  const auto size = static_cast<std::uint32_t>(hosts.size());
  std::vector<std::unique_ptr<collectives::Mesh>> meshes;
  std::vector<collectives::Peer> peers;
  for (const std::uint32_t host : hosts) {
    const std::string address = "127.0.0." + std::to_string(host + 1);
    meshes.push_back(std::move(collectives::Mesh::bind(address).value()));
    peers.push_back({address, meshes.back()->port()});
  }
  Group group(size);
  run_ranks(size, [&](std::uint32_t rank) {
    const collectives::Group own{
        .job_id = "test", .attempt = 1, .secret = "secret", .rank = rank, .size = size, .shared_memory = shared_memory};
    group[rank] = std::move(meshes[rank]->join(own, peers, std::chrono::seconds(60)).value());
  });
  return group;
}

/// All on one host.
inline Group mesh_group(std::uint32_t size, bool shared_memory) {
  return mesh_group(std::vector<std::uint32_t>(size, 0), shared_memory);
}

inline Group tcp_group(std::uint32_t size) { return mesh_group(size, false); }

/// A small job on synthetic data.
inline protocol::JobSpec small_job(const std::string& compressor, double ratio = 0.05) {
  protocol::JobSpec spec;
  spec.model = {"mlp", {{"hidden", 16}}};
  spec.dataset.choice = {"synthetic",
                         {{"height", 8}, {"width", 8}, {"classes", 4}, {"train_examples", 512}, {"test_examples", 64}}};
  spec.dataset.partition = "iid";
  spec.training.mode = {"sync", {}};
  spec.training.epochs = 2;
  spec.training.batch_size = 16;
  spec.training.optimizer = {"sgd", {{"lr", 0.05}, {"momentum", 0.9}, {"weight_decay", 1e-4}}};
  spec.training.lr_schedule = {"constant", {}};
  spec.compression.compressor = {compressor, {}};
  if (compressor != "none") spec.compression.compressor.params["ratio"] = ratio;
  // By default the warm-up depends on the length of the training, which tests of resuming change.
  if (compressor == "dgc" || compressor == "chunk") spec.compression.compressor.params["warmup_epochs"] = 0.5;
  spec.exchange = {.topology = "ring", .transport = "auto", .bucket_bytes = 1024};
  return spec;
}

/// The same job with `batches` batches in each optimizer step.
inline protocol::JobSpec accumulating(protocol::JobSpec spec, std::uint64_t batches) {
  spec.training.mode.params = {{"accumulate", batches}};
  spec.training.accumulate = batches;
  return spec;
}

}  // namespace weir::training::testing
