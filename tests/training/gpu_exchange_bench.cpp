// What an exchange of ResNet-50's gradients costs on a GPU beside its computing, each compressor (those that are named)
// at its defaults, with its default memory, as JSON lines:
//
//     gpu_exchange_bench NAME...
//
// Two ranks, threads of one process, share the GPU and exchange through the host's memory. Milliseconds are medians of
// 20 steps: `host` is what the compute thread does for the exchange, from begin() to the means, without waiting;
// `alone` is how long a step takes in which nothing is computed, so that nothing hides it. `encode`, `wire` and
// `decode` are what of that the codec threads and the messages take, summed over buckets, which pass side by side.

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compressors/catalog.hpp"
#include "ranks.hpp"
#include "tested_device.hpp"
#include "training/exchange/exchange.hpp"
#include "training/exchange/stopwatch.hpp"
#include "training/models/resnet.hpp"

namespace weir::training::testing {
namespace {

constexpr std::uint32_t ranks = 2;
constexpr int warm_up = 3;
constexpr int steps = 20;

struct Step {
  double host = 0;
  double alone = 0;
  double encode = 0;
  double wire = 0;
  double decode = 0;
};

double median(const std::vector<Step>& all, double Step::*part) {
  std::vector<double> values;
  for (const Step& step : all) values.push_back(step.*part);
  std::ranges::sort(values);
  return 1e3 * (values[values.size() / 2 - 1] + values[values.size() / 2]) / 2;
}

/// The steps of one rank.
std::vector<Step> run_rank(const std::string& compressor, collectives::Fabric& fabric, at::Device device) {
  const auto there = at::TensorOptions(at::kFloat).device(device);
  std::vector<compressors::NamedTensor> tensors;
  std::vector<at::Tensor> gradients;
  const auto network = ResNet::network({.depth = 50}, {3, 224, 224, 1000}).value();
  for (const auto& [name, shape] : shapes_of(network)) {
    tensors.push_back({name, at::zeros(shape, there)});
    gradients.push_back(at::randn(shape, there));
  }
  const nlohmann::json none;
  auto compression = compressors::builtin().make({.compressor = compressor,
                                                  .params = none,
                                                  .memory = {},
                                                  .memory_params = none,
                                                  .setting = {.momentum = 0.9, .nesterov = false}});
  Exchange exchange(tensors, std::move(compression.value()), fabric,
                    {.seed = 3, .bucket_sizes = {}, .topology = {.name = "ring"}});
  std::vector<Step> all;
  for (int i = -warm_up; i < steps; ++i) {
    const Stopwatch watch;
    exchange.begin({.number = static_cast<std::uint64_t>(100 + warm_up + i), .epoch = 100});
    for (std::size_t t = tensors.size(); t-- > 0;) exchange.give(static_cast<std::uint32_t>(t), gradients[t]);
    const auto agreed = exchange.finish().value();
    const double host = watch.seconds() - agreed.times.wait;
    on_host(exchange.means().front().tensor.view({-1}).narrow(0, 0, 1));  // when the last means are there
    if (i < 0) continue;
    all.push_back({.host = host,
                   .alone = watch.seconds(),
                   .encode = agreed.times.encode,
                   .wire = agreed.times.exchange,
                   .decode = agreed.times.decode});
  }
  fabric.close();
  return all;
}

void bench(const std::string& compressor, at::Device device) {
  auto group = collectives::in_process_group(ranks);
  std::vector<std::vector<Step>> all(ranks);
  run_ranks(ranks, [&](std::uint32_t rank) { all[rank] = run_rank(compressor, *group[rank], device); });
  const auto& own = all.front();
  std::printf(
      "{\"exchange\": \"%s\", \"of\": \"resnet50, 2 ranks on one GPU\", \"host_ms\": %.3f, \"alone_ms\": %.3f, "
      "\"encode_ms\": %.3f, \"wire_ms\": %.3f, \"decode_ms\": %.3f}\n",
      compressor.c_str(), median(own, &Step::host), median(own, &Step::alone), median(own, &Step::encode),
      median(own, &Step::wire), median(own, &Step::decode));
  std::fflush(stdout);
}

}  // namespace
}  // namespace weir::training::testing

int main(int argc, char** argv) {
  const auto device = weir::training::testing::tested_device();
  if (!device.is_cuda()) {
    std::fputs("There is no GPU.\n", stderr);
    return 1;
  }
  for (int i = 1; i < argc; ++i) weir::training::testing::bench(argv[i], device);
  return 0;
}
