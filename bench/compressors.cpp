#include "bench/compressors.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <vector>

#include "compressors/catalog.hpp"

namespace weir::bench {
namespace {

using compressors::Compression;
using compressors::CompressorEntry;
using compressors::Round;

constexpr std::int64_t side = 4096;
constexpr int repetitions = 21;

/// Seconds of one thing, measured several times.
class Timing {
 public:
  void measure(const std::function<void()>& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    seconds_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  /// `share` of the measurements took no longer than this.
  double quantile(double share) const {
    std::vector<double> sorted = seconds_;
    std::ranges::sort(sorted);
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
    return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
  }

 private:
  std::vector<double> seconds_;
};

struct Row {
  std::string name;
  nlohmann::json params = nlohmann::json::object();
  nlohmann::json memory = nullptr;  ///< null: the compressor alone
  Timing encode = {};
  Timing decode = {};
  Timing copy = {};  ///< memcpy of the tensor, between the other measurements
  std::size_t wire_bytes = 0;
  double relative_error = 0;
};

/// What all rows share: the tensor, and memory that has been touched before.
struct Bench {
  at::Tensor gradient = at::randn({side, side}, at::kFloat);
  at::Tensor sum = at::zeros({side, side}, at::kFloat);
  at::Tensor copy = at::zeros({side, side}, at::kFloat);

  void measure_copy(Row& row) {
    row.copy.measure([&] { std::memcpy(copy.data_ptr(), gradient.data_ptr(), gradient.nbytes()); });
  }
  double relative_error(const at::Tensor& decoded) const {
    return ((decoded - gradient).norm() / gradient.norm()).item<double>();
  }
};

Row run_compressor(Bench& bench, const CompressorEntry& entry, bool with_memory) {
  const nlohmann::json none;
  Compression compression = std::move(compressors::builtin()
                                          .make({.compressor = entry.name,
                                                 .params = none,
                                                 .memory = with_memory ? entry.default_memory : "none",
                                                 .memory_params = none,
                                                 .setting = {.momentum = 0.9}})
                                          .value());
  Row row{.name = entry.name};
  const nlohmann::json schema = entry.schema();
  for (const auto& [name, property] : schema.at("properties").items()) row.params[name] = property.at("default");
  if (with_memory) row.memory = entry.default_memory;
  Bytes payload;
  for (int i = 0; i < repetitions; ++i) {
    const Round round{.seed = 1, .step = static_cast<std::uint64_t>(i), .epoch = 1e6};
    payload.clear();
    bench.measure_copy(row);
    row.encode.measure([&] {
      const at::Tensor input = compression.memory->compensate(bench.gradient, round).value();
      compression.compressor->encode(input, round, payload).value();
      compression.memory->update(round, *compression.compressor, payload, bench.sum).value();
    });
    row.decode.measure([&] { compression.compressor->decode_add(payload, round, 0.25F, bench.sum).value(); });
    if (i > 0) continue;
    row.wire_bytes = payload.size();
    at::Tensor decoded = at::zeros_like(bench.gradient);
    compression.compressor->decode_add(payload, round, 1, decoded).value();
    row.relative_error = bench.relative_error(decoded);
  }
  return row;
}

/// What a few lines of LibTorch do: topk of the magnitudes, 64-bit positions, 32-bit values.
Row run_torch_topk(Bench& bench) {
  constexpr double ratio = 0.001;
  const auto kept = static_cast<std::int64_t>(std::ceil(ratio * side * side));
  Row row{.name = "torch_topk", .params = {{"ratio", ratio}}};
  const at::Tensor flat = bench.gradient.view({-1});
  for (int i = 0; i < repetitions / 3; ++i) {
    at::Tensor positions;
    at::Tensor values;
    bench.measure_copy(row);
    row.encode.measure([&] {
      positions = std::get<1>(flat.abs().topk(kept, 0, true, false));
      values = flat.index_select(0, positions);
    });
    row.decode.measure([&] { bench.sum.view({-1}).index_add_(0, positions, values, 0.25); });
    row.wire_bytes = positions.nbytes() + values.nbytes();
    if (i > 0) continue;
    row.relative_error = bench.relative_error(at::zeros_like(flat).index_copy(0, positions, values).view({side, side}));
  }
  return row;
}

void print_json(const Row& row) {
  const nlohmann::json line = {
      {"bench", "compressors"},
      {"name", row.name},
      {"case",
       {{"numel", side * side}, {"params", row.params}, {"memory", row.memory}, {"threads", 1}, {"device", "cpu"}}},
      {"metrics",
       {{"encode_seconds", row.encode.quantile(0.5)},
        {"encode_seconds_p99", row.encode.quantile(0.99)},
        {"decode_seconds", row.decode.quantile(0.5)},
        {"decode_seconds_p99", row.decode.quantile(0.99)},
        {"memcpy_seconds", row.copy.quantile(0.5)},
        {"memcpy_seconds_p99", row.copy.quantile(0.99)},
        {"wire_bytes", row.wire_bytes},
        {"relative_error", row.relative_error}}}};
  std::cout << line.dump() << std::endl;
}

void print_text(const Row& row) {
  const double copy = row.copy.quantile(0.5);
  const std::string name = row.memory.is_null() ? row.name : row.name + " + memory " + row.memory.get<std::string>();
  std::printf(
      "%-24s encode %8.2f ms (%5.2f x memcpy, p99 %8.2f ms)  decode %8.3f ms (%5.3f x)  %9zu bytes  error %.4f\n",
      name.c_str(), row.encode.quantile(0.5) * 1e3, row.encode.quantile(0.5) / copy, row.encode.quantile(0.99) * 1e3,
      row.decode.quantile(0.5) * 1e3, row.decode.quantile(0.5) / copy, row.wire_bytes, row.relative_error);
  std::fflush(stdout);
}

}  // namespace

int compressors(const Options& options) {
  std::regex filter;
  try {
    filter = std::regex(options.filter);
  } catch (const std::regex_error& error) {
    std::cerr << "weir bench: '" << options.filter << "' is not a regular expression: " << error.what() << '\n';
    return 2;
  }
  const auto wanted = [&](const std::string& name) { return std::regex_search(name, filter); };
  const auto print = [&](const Row& row) { options.json ? print_json(row) : print_text(row); };

  at::set_num_threads(1);
  at::manual_seed(1);
  Bench bench;
  for (const CompressorEntry& entry : compressors::builtin().compressors()) {
    if (!wanted(entry.name)) continue;
    print(run_compressor(bench, entry, false));
    if (entry.default_memory != "none") print(run_compressor(bench, entry, true));
  }
  if (wanted("torch_topk")) print(run_torch_topk(bench));
  return 0;
}

}  // namespace weir::bench
