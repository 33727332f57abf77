#include "bench/coding_costs.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errc.hpp"
#include "training/exchange/coded_round.hpp"
#include "training/exchange/coding_probe.hpp"

namespace weir::bench {
namespace {

using compressors::Reduction;
using nlohmann::json;
using training::CodedLoad;
using training::PassLoad;

/// The least of so many measurements counts: what other programs do only ever adds to it.
constexpr int repetitions = 7;

/// After any warm-up.
compressors::Round late_round(std::uint32_t ranks) {
  return {.seed = 1, .step = 1'000'000, .epoch = 1e6, .learning_rate = 0.01, .world = ranks};
}

/// What is summed without being changed needs no coding: a plain bucket does the same without copying.
bool changes_nothing(const compressors::Compression& compression) {
  const auto traits = compression.compressor->traits();
  return traits.lossless && traits.passes == compressors::Passes{Reduction::sum} &&
         compression.memory->name() == "none";
}

}  // namespace

Result<CodingCosts> CodingCosts::make(const LayerList& model, const std::string& compressor) {
  const json none;
  auto compression = compressors::builtin().make({.compressor = compressor,
                                                  .params = none,
                                                  .memory = "",
                                                  .memory_params = none,
                                                  .setting = {.momentum = 0.9, .nesterov = false}});
  if (!compression) return compression.error();
  return CodingCosts(model, std::move(*compression));
}

Result<CodingCosts> CodingCosts::measure(const LayerList& model, const std::string& compressor) {
  auto costs = make(model, compressor);
  if (!costs) return costs;
  costs->encoded_.resize(model.parameters.size());
  if (changes_nothing(costs->compression_)) return costs;
  std::vector<compressors::NamedTensor> tensors;
  for (const auto& [name, extents] : model.parameters) tensors.push_back({name, at::empty(extents)});
  // In a group of two nothing goes dense because there would be too many payloads.
  compressors::Round round = late_round(2);
  for (int repetition = 0; repetition < repetitions; ++repetition, round.step += 2) {
    auto loads = training::measure_coding(costs->compression_, tensors, round);
    if (!loads) return loads.error();
    for (std::size_t i = 0; i < loads->size(); ++i) {
      CodedLoad& least = costs->encoded_[i];
      CodedLoad& load = (*loads)[i].by_all;
      if (repetition > 0) {
        load.encode_seconds = std::min(load.encode_seconds, least.encode_seconds);
        load.decode_seconds = std::min(load.decode_seconds, least.decode_seconds);
      }
      least = std::move(load);
    }
  }
  return costs;
}

Result<CodingCosts> CodingCosts::from(const json& json, const LayerList& model, const std::string& compressor) {
  auto costs = make(model, compressor);
  if (!costs) return costs;
  const auto passes = costs->compression_.compressor->traits().passes;
  try {
    for (const auto& tensor : json.at("tensors")) {
      CodedLoad& load = costs->encoded_.emplace_back();
      const auto numbers = tensor.get<std::vector<double>>();
      if (numbers.empty()) continue;
      if (numbers.size() != 2 + passes.size()) return Error{Errc::malformed, "the costs of another compressor"};
      load.encode_seconds = 1e-9 * numbers[0];
      load.decode_seconds = 1e-9 * numbers[1];
      for (std::size_t pass = 0; pass < passes.size(); ++pass) {
        PassLoad& added = load.passes.emplace_back(PassLoad{.bytes = numbers[2 + pass]});
        if (passes[pass] != Reduction::gather) added.summed = training::element_of(passes[pass]);
      }
    }
  } catch (const nlohmann::json::exception& error) {
    return Error{Errc::malformed, error.what()};
  }
  if (costs->encoded_.size() != model.parameters.size()) return Error{Errc::malformed, "the costs of another model"};
  return costs;
}

json CodingCosts::to_json() const {
  json tensors = json::array();
  double encode = 0;
  double decode = 0;
  double bytes = 0;
  for (const CodedLoad& load : encoded_) {
    json& numbers = tensors.emplace_back(json::array());
    if (load.passes.empty()) continue;
    encode += load.encode_seconds;
    decode += load.decode_seconds;
    numbers.push_back(std::llround(1e9 * load.encode_seconds));
    numbers.push_back(std::llround(1e9 * load.decode_seconds));
    for (const auto& pass : load.passes) {
      bytes += pass.bytes;
      numbers.push_back(std::llround(pass.bytes));
    }
  }
  return {{"encode_seconds", encode}, {"decode_seconds", decode}, {"payload_bytes", bytes}, {"tensors", tensors}};
}

Way CodingCosts::way(std::uint32_t ranks) const {
  const auto traits = compression_.compressor->traits();
  Way way{.compressor = std::string(compression_.compressor->name()),
          .parameters = {},
          .gathers = std::ranges::count(traits.passes, Reduction::gather) > 0,
          .fits_owners = traits.fits_owners(),
          .must_be_coded = traits.must_be_coded()};
  for (std::size_t i = 0; i < encoded_.size(); ++i) {
    way.parameters.push_back(
        training::load_of(*compression_.compressor, model_->parameters[i].extents, late_round(ranks), encoded_[i]));
    if (changes_nothing(compression_)) way.parameters.back() = {.dense_bytes = way.parameters.back().dense_bytes};
  }
  return way;
}

}  // namespace weir::bench
