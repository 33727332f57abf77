#include "bench/exchange_step.hpp"

#include <ATen/ops/linspace.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "compressors/catalog.hpp"
#include "protocol/exchange_plan.hpp"
#include "training/exchange/exchange.hpp"

namespace weir::bench {
namespace {

constexpr std::size_t parameters = 4;
constexpr double after_all_warmups = 1e6;

Result<compressors::Compression> make_compression(const std::string& compressor) {
  const nlohmann::json none;
  return compressors::builtin().make(
      {.compressor = compressor, .params = none, .memory = {}, .memory_params = none, .setting = {}});
}

std::vector<training::NamedTensor> tensors_of(std::size_t bytes) {
  std::vector<training::NamedTensor> all;
  const auto rows = static_cast<std::int64_t>(bytes / parameters / sizeof(float) / 2);
  for (std::size_t p = 0; p < parameters; ++p) {
    all.push_back({std::to_string(p), at::linspace(-1, 1, 2 * rows).view({rows, 2})});
  }
  return all;
}

}  // namespace

struct ExchangeStep::Rank {
  Rank(collectives::Fabric& fabric, const Options& options)
      : tensors(tensors_of(options.gradient_bytes)),
        exchange(tensors, make_compression(options.compressor).value(), fabric,
                 {.bucket_sizes = {},
                  .topology = {.name = options.topology},
                  .make_compression = [name = options.compressor] { return make_compression(name); }}) {}

  void step() {
    exchange.begin({.number = number++, .epoch = after_all_warmups, .learning_rate = 0.1, .vote = 0});
    for (auto p = static_cast<std::uint32_t>(tensors.size()); p-- > 0;) exchange.give(p, tensors[p].tensor);
    exchange.finish().value();
    if (auto fresh = exchange.new_plan()) plan = std::move(*fresh);
  }

  std::vector<training::NamedTensor> tensors;
  training::Exchange exchange;
  std::uint64_t number = 0;
  protocol::ExchangePlan plan;
};

ExchangeStep::ExchangeStep(std::span<const std::unique_ptr<collectives::Fabric>> group, const Options& options) {
  for (const auto& fabric : group) ranks_.push_back(std::make_unique<Rank>(*fabric, options));
}

ExchangeStep::~ExchangeStep() = default;

void ExchangeStep::step(std::uint32_t rank) { ranks_[rank]->step(); }

bool ExchangeStep::settled() const {
  const Rank& first = *ranks_.front();
  return first.number > 0 && std::ranges::all_of(first.plan.candidates, [](const auto& candidate) {
           return candidate.measured_seconds.has_value();
         });
}

std::string ExchangeStep::routes() const { return protocol::to_string(protocol::routes_of(ranks_.front()->plan)); }

}  // namespace weir::bench
