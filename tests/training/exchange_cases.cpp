#include "exchange_cases.hpp"

#include <algorithm>

namespace weir::training::testing {

using compressors::builtin;
using nlohmann::json;

compressors::Compression ExchangeCase::make() const {
  auto made = builtin().make({.compressor = compressor,
                              .params = params,
                              .memory = memory,
                              .memory_params = memory_params,
                              .setting = setting});
  return std::move(made.value());
}

void PrintTo(const ExchangeCase& it, std::ostream* out) {
  *out << it.compressor << it.params.dump() << " with " << it.memory << it.memory_params.dump() << ", momentum "
       << it.setting.momentum << (it.setting.nesterov ? " (nesterov)" : "");
}

const std::map<std::string, std::vector<json>>& compressor_params() {
  static const std::vector<json> no_params = {json::object()};
  static const std::map<std::string, std::vector<json>> all = {
      {"none", no_params},
      {"fp16", no_params},
      {"bf16", no_params},
      {"int8", no_params},
      {"uint8", no_params},
      {"natural", no_params},
      {"onebit", no_params},
      {"signsgd", no_params},
      {"efsignsgd", no_params},
      {"qsgd", {{{"bits", 1}, {"bucket", 64}}, {{"bits", 5}, {"bucket", 192}}, {{"bits", 7}, {"bucket", 64}}}},
      {"terngrad",
       {{{"clip", 0}, {"scale", "local"}}, {{"clip", 1.5}, {"scale", "shared"}}, {{"clip", 4}, {"scale", "local"}}}},
      {"signum", {{{"momentum", 0.5}}, {{"momentum", 0.99}}}},
      {"topk",
       {{{"ratio", 0.05}, {"index_codec", "rice"}, {"value_codec", "fp16"}},
        {{"ratio", 0.3}, {"index_codec", "bitmap"}, {"value_codec", "int8"}}}},
      {"randomk",
       {{{"ratio", 0.05}, {"value_codec", "fp16"}},
        {{"ratio", 0.3}, {"value_codec", "int4"}, {"check_unsent", false}},
        {{"ratio", 0.3}, {"value_codec", "bf16"}},
        {{"ratio", 0.1}, {"unbiased", true}},
        {{"ratio", 0.2}, {"unbiased", true}, {"value_codec", "bf16"}},
        {{"ratio", 0.2}, {"unbiased", true}, {"value_codec", "int8"}}}},
      {"threshold",
       {{{"threshold", 0.8}, {"index_codec", "varint"}, {"value_codec", "bf16"}},
        {{"threshold", 2.5}, {"index_codec", "elias_fano"}, {"value_codec", "int4"}}}},
      {"dgc",
       {{{"ratio", 0.05},
         {"min_kept", 1},
         {"sample_ratio", 0.1},
         {"upper_bound", 1.1},
         {"lower_bound", 0.95},
         {"adaptations_max", 1},
         {"resample", false},
         {"warmup_epochs", 2},
         {"warmup_dense", 0.3},
         {"warmup_schedule", "paper"},
         {"index_codec", "raw32"},
         {"value_codec", "int8"}},
        {{"ratio", 0.1},
         {"min_kept", 20},
         {"sample_ratio", 0.5},
         {"warmup_epochs", 1.5},
         {"warmup_dense", 0},
         {"warmup_schedule", "authors"},
         {"value_codec", "fp16"}}}},
      {"sidco",
       {{{"ratio", 0.05},
         {"distribution", "gamma"},
         {"first_ratio", 0.3},
         {"adapt_every", 2},
         {"tolerance", 0.1},
         {"index_codec", "block"},
         {"value_codec", "fp16"}},
        {{"ratio", 0.2}, {"distribution", "pareto"}, {"adapt_every", 1}, {"tolerance", 0.05}}}},
      {"chunk",
       {{{"chunk", 16}, {"ratio", 0.001}, {"warmup_epochs", 0}},
        {{"chunk", 64}, {"ratio", 0.1}, {"warmup_epochs", 2}, {"warmup_dense", 0}, {"warmup_schedule", "authors"}},
        {{"chunk", 100}, {"ratio", 0.05}, {"warmup_epochs", 3}, {"warmup_dense", 0.7}, {"warmup_schedule", "paper"}}}},
      {"blockk",
       {{{"block", 64}, {"per_block", 3}, {"index_codec", "rice"}, {"value_codec", "int8"}},
        {{"block", 200}, {"per_block", 40}}}},
      {"cocktail",
       {{{"ratio", 0.3}, {"top", 0.2}, {"index_codec", "bitmap"}, {"value_codec", "int4"}},
        {{"ratio", 0.9}, {"top", 0.5}, {"value_codec", "fp32"}}}},
      {"atomo",
       {{{"atoms", "svd"}, {"budget", 2}, {"quantize_bits", 4}},
        {{"atoms", "entrywise"}, {"ratio", 0.1}},
        {{"atoms", "dct"}, {"ratio", 0.2}, {"quantize_bits", 6}}}},
      {"powersgd",
       {{{"rank", 1}, {"min_compression_rate", 1}, {"warm_start", false}, {"start_step", 0}},
        {{"rank", 3}, {"min_compression_rate", 3}, {"warm_start", true}, {"start_step", 0}},
        {{"start_step", 4}}}},
      {"demo",
       {{{"chunk", 16}, {"per_chunk", 4}, {"value_codec", "fp16"}},
        {{"chunk", 24}, {"per_chunk", 30}, {"sign", false}, {"index_codec", "bitmap"}},
        {{"chunk", 8}, {"per_chunk", 1}, {"sign", false}, {"value_codec", "int8"}}}},
      {"sketchml",
       {{{"ratio", 0.2}, {"buckets", 32}, {"groups", 2}, {"rows", 3}, {"columns", 1.5}},
        {{"ratio", 0.5}, {"buckets", 64}, {"groups", 4}, {"rows", 1}, {"columns", 0.5}}}},
      {"casq",
       {{{"bits", 2}, {"budget", 0.2}, {"train_every", 1}}, {{"bits", 4}, {"budget", 0.05}, {"train_every", 3}}}},
  };
  return all;
}

const std::map<std::string, std::vector<MemoryParams>>& memory_params() {
  static const std::vector<MemoryParams> no_params = {{json::object()}};
  static const std::map<std::string, std::vector<MemoryParams>> all = {
      {"none", no_params},
      {"residual", {{{{"beta", 0.9}, {"gamma", 0.7}}}, {{{"beta", 0.5}, {"gamma", 0.3}}}}},
      {"dgc",
       {{{{"momentum_masking", false}, {"clip_norm", 0.8}}, {.momentum = 0.9}},
        {{{"clip_norm", 20}}, {.momentum = 0.6, .nesterov = true}},
        {{{"clip_norm", 3}}, {.momentum = 0.9}}}},
      {"efsignsgd", {{{{"beta", 0.9}}}, {{{"beta", 0.3}}}}},
      {"powersgd", no_params},
      {"ef21", {{{{"momentum", 0.9}}}, {{{"momentum", 0.5}}}}},
  };
  return all;
}

std::vector<ExchangeCase> exchange_cases() {
  std::vector<ExchangeCase> cases;
  for (const auto& [compressor, sets] : compressor_params()) {
    for (const auto& memory : builtin().memories()) {
      std::vector<json> fitting;
      for (const json& params : sets) {
        const auto made = builtin().make_compressor(compressor, params);
        if (!memory.misfit(*made.value())) fitting.push_back(params);
      }
      if (fitting.empty()) continue;
      const auto& settings = memory_params().at(memory.name);
      for (std::size_t i = 0; i < std::max(fitting.size(), settings.size()); ++i) {
        const MemoryParams& of_memory = settings[i % settings.size()];
        cases.push_back({compressor, fitting[i % fitting.size()], memory.name, of_memory.params, of_memory.setting, i});
      }
    }
  }
  return cases;
}

}  // namespace weir::training::testing
