#include "bench/compressors.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <sstream>
#include <vector>

#include "base/ensure.hpp"
#include "compressors/catalog.hpp"
#include "compressors/codecs/index_codec.hpp"
#include "compressors/codecs/value_codec.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/parallel_loops.hpp"

namespace weir::bench {
namespace {

using compressors::Compression;
using compressors::CompressorEntry;
using compressors::Round;

constexpr std::int64_t side = 4096;
constexpr int repetitions = 21;

/// The times of one operation, measured several times, in seconds.
class Timing {
 public:
  void measure(const std::function<void()>& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    seconds_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  bool empty() const { return seconds_.empty(); }
  double total() const { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }
  /// The time that `share` of the measurements did not exceed.
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
  Timing encode_on_two = {};  ///< the same with two threads
  Timing decode = {};
  // The limits, measured between the other measurements.
  Timing copy = {};        ///< memcpy of the tensor
  Timing arithmetic = {};  ///< one random word per entry, all within the first-level cache
  Timing arithmetic_on_two = {};
  std::size_t wire_bytes = 0;
  double relative_error = 0;
};

/// The factor by which two threads are faster.
double gain(const Timing& one, const Timing& two) { return two.empty() ? 0 : one.quantile(0.5) / two.quantile(0.5); }

void draw_random_words() {
  compressors::parallel_for_ranges(side * side, 256, [](std::size_t begin, std::size_t end) {
    std::array<std::uint32_t, 256> words;
    for (; begin < end; begin += words.size()) compressors::fill_random({.seed = 1}, begin, words);
  });
}

/// The data that all rows share: the tensor, and memory that has been touched before.
struct Bench {
  // About as large as the entries of a gradient, so that the threshold compressor keeps about one in a thousand.
  at::Tensor gradient = at::randn({side, side}, at::kFloat) * 0.003;
  at::Tensor sum = at::zeros({side, side}, at::kFloat);
  at::Tensor copy = at::zeros({side, side}, at::kFloat);

  void measure_copy(Row& row) {
    row.copy.measure([&] { std::memcpy(copy.data_ptr(), gradient.data_ptr(), gradient.nbytes()); });
  }
  double relative_error(const at::Tensor& decoded) const {
    return ((decoded - gradient).norm() / gradient.norm()).item<double>();
  }
};

nlohmann::json completed(const CompressorEntry& entry, nlohmann::json params) {
  const nlohmann::json schema = entry.schema();
  for (const auto& [name, property] : schema.at("properties").items()) {
    if (!params.contains(name)) params[name] = property.at("default");
  }
  return params;
}

/// Does one rank's part of a round, apart from the exchange: encodes and absorbs every pass, and updates the memory.
/// Returns the bytes sent.
std::size_t encode_round(Compression& compression, const at::Tensor& gradient, Round round, Bytes& payload,
                         compressors::Selection& own, at::Tensor& mean) {
  const at::Tensor input = compression.memory->compensate(gradient, round).value();
  round.peaks = compression.memory->peaks(round);
  const auto traits = compression.compressor->traits();
  const auto passes = traits.passes.size();
  std::size_t sent = 0;
  for (round.pass = 0; round.pass < passes; ++round.pass) {
    payload.clear();
    const bool keeps = traits.sparse && round.pass + 1 == passes;
    compression.compressor->encode(input, round, payload, keeps ? &own : nullptr).value();
    sent += payload.size();
    const BytesView result = payload;
    compression.compressor->absorb(std::span(&result, 1), round).value();
  }
  --round.pass;
  const compressors::Sent what =
      traits.sparse ? compressors::Sent(own) : compressors::Sent(*compression.compressor, payload, round);
  compression.memory->update(round, what, mean).value();
  return sent;
}

Row run_compressor(Bench& bench, const CompressorEntry& entry, const nlohmann::json& params, bool with_memory) {
  const nlohmann::json none;
  Compression compression = compressors::builtin()
                                .make({.compressor = entry.name,
                                       .params = params,
                                       .memory = with_memory ? entry.default_memory : "none",
                                       .memory_params = none,
                                       .setting = {.momentum = 0.9}})
                                .value();
  Row row{.name = entry.name, .params = completed(entry, params)};
  if (with_memory) row.memory = entry.default_memory;
  auto& compressor = *compression.compressor;
  Bytes payload;
  compressors::Selection own;
  const auto passes = static_cast<std::uint32_t>(compressor.traits().passes.size());
  Round round{.seed = 1, .step = 0, .epoch = 1e6};
  const auto encode = [&] {
    ++round.step;
    row.wire_bytes = encode_round(compression, bench.gradient, round, payload, own, bench.sum);
  };
  for (int i = 0; i < repetitions; ++i) {
    bench.measure_copy(row);
    row.arithmetic.measure(draw_random_words);
    row.encode.measure(encode);
    round.pass = passes - 1;
    row.decode.measure([&] { compressor.decode_add(payload, round, 0.25F, bench.sum).value(); });
    if (i == 0) {
      at::Tensor decoded = at::zeros_like(bench.gradient);
      compressor.decode_add(payload, round, 1, decoded).value();
      row.relative_error = bench.relative_error(decoded);
    }
    // For slow compressors, fewer repetitions suffice.
    if (i >= 4 && row.encode.total() > 3) break;
  }
  at::set_num_threads(2);
  draw_random_words();  // starts the threads
  for (int i = 0; i < repetitions / 2 && row.encode_on_two.total() < 2; ++i) {
    row.arithmetic_on_two.measure(draw_random_words);
    row.encode_on_two.measure(encode);
  }
  at::set_num_threads(1);
  return row;
}

/// The simplest implementation in LibTorch: topk of the magnitudes, 64-bit positions, 32-bit values.
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

/// The limit: reads the whole tensor once and does nothing else.
Row run_read(Bench& bench) {
  Row row{.name = "read"};
  for (int i = 0; i < repetitions; ++i) {
    bench.measure_copy(row);
    row.encode.measure([&] {
      const std::span values(bench.gradient.data_ptr<float>(), static_cast<std::size_t>(bench.gradient.numel()));
      ensure(compressors::all_finite(values), "a random tensor is finite");
    });
  }
  return row;
}

nlohmann::json median_and_p99(const Timing& timing, const std::string& name) {
  if (timing.empty()) return nlohmann::json::object();
  return {{name, timing.quantile(0.5)}, {name + "_p99", timing.quantile(0.99)}};
}

void print_json(const Row& row) {
  nlohmann::json line = {
      {"bench", "compressors"},
      {"name", row.name},
      {"case",
       {{"numel", side * side}, {"params", row.params}, {"memory", row.memory}, {"threads", 1}, {"device", "cpu"}}},
      {"metrics", {{"wire_bytes", row.wire_bytes}, {"relative_error", row.relative_error}}}};
  line["metrics"].update(median_and_p99(row.encode, "encode_seconds"));
  line["metrics"].update(median_and_p99(row.encode_on_two, "encode_seconds_two_threads"));
  line["metrics"].update(median_and_p99(row.decode, "decode_seconds"));
  line["metrics"].update(median_and_p99(row.copy, "memcpy_seconds"));
  line["metrics"].update(median_and_p99(row.arithmetic, "arithmetic_seconds"));
  line["metrics"].update(median_and_p99(row.arithmetic_on_two, "arithmetic_seconds_two_threads"));
  std::cout << line.dump() << std::endl;
}

std::string label(const Row& row) {
  std::string name = row.name;
  if (row.params.contains("atoms")) name += " " + row.params["atoms"].get<std::string>();
  if (row.params.contains("ratio")) {
    std::ostringstream ratio;
    ratio << " " << row.params["ratio"].get<double>() * 100 << " %";
    name += ratio.str();
  }
  if (row.params.contains("check_unsent") && !row.params["check_unsent"].get<bool>()) name += " unchecked";
  if (!row.memory.is_null()) name += " + " + row.memory.get<std::string>();
  return name;
}

void print_text(const Row& row) {
  const double copy = row.copy.quantile(0.5);
  const auto multiple = [&](const Timing& timing) { return timing.empty() ? 0 : timing.quantile(0.5) / copy; };
  std::printf("%-26s encode %8.2f ms %6.2f x memcpy (p99 %6.2f, 2 threads %4.2f x faster of %4.2f)  decode %6.3f x  ",
              label(row).c_str(), row.encode.quantile(0.5) * 1e3, multiple(row.encode),
              row.encode.quantile(0.99) / copy, gain(row.encode, row.encode_on_two),
              gain(row.arithmetic, row.arithmetic_on_two), multiple(row.decode));
  std::printf("%9zu bytes (%7.1f x fewer)  error %.4f\n", row.wire_bytes,
              static_cast<double>(side * side * 4) / static_cast<double>(std::max<std::size_t>(row.wire_bytes, 1)),
              row.relative_error);
  std::fflush(stdout);
}

/// Compares ATOMO's atoms of one layer with the singular value decomposition that the paper's code draws them from.
void run_svd(const Options& options) {
  const at::Tensor layer = at::randn({512, 4608}, at::kFloat);
  const auto atomo = compressors::builtin().make_compressor("atomo", {{"atoms", "svd"}, {"budget", 3}}).value();
  Timing encode;
  Timing svd;
  Bytes payload;
  for (int i = 0; i < 5; ++i) {
    encode.measure([&] {
      payload.clear();
      atomo->encode(layer, {.seed = 1, .step = static_cast<std::uint64_t>(i)}, payload).value();
    });
    svd.measure([&] { (void)at::linalg_svd(layer, false); });
  }
  const double faster = svd.quantile(0.5) / encode.quantile(0.5);
  if (options.json) {
    nlohmann::json line = {{"bench", "compressors"},
                           {"name", "atomo_svd"},
                           {"case", {{"shape", {512, 4608}}, {"budget", 3}, {"threads", 1}, {"device", "cpu"}}},
                           {"metrics", {{"wire_bytes", payload.size()}, {"times_faster", faster}}}};
    line["metrics"].update(median_and_p99(encode, "encode_seconds"));
    line["metrics"].update(median_and_p99(svd, "full_svd_seconds"));
    std::cout << line.dump() << std::endl;
  } else {
    std::printf("%-26s encode %8.2f ms, full SVD %8.2f ms: %.1f times faster\n", "atomo 512 x 4608, budget 3",
                encode.quantile(0.5) * 1e3, svd.quantile(0.5) * 1e3, faster);
  }
}

/// Measures the bits per position of each codec, at two densities.
void run_index_codecs(const Options& options) {
  for (const double ratio : {0.001, 0.01}) {
    const auto topk = compressors::builtin().make_compressor("topk", {{"ratio", ratio}}).value();
    const at::Tensor x = at::randn({side * side}, at::kFloat);
    Bytes payload;
    compressors::Selection entries;
    topk->encode(x, {}, payload, &entries).value();
    const auto& positions = entries.positions;
    for (const compressors::IndexCodec* codec : compressors::index_codecs()) {
      const double bits =
          8.0 * static_cast<double>(codec->bytes(positions, side * side)) / static_cast<double>(positions.size());
      if (options.json) {
        std::cout << nlohmann::json{{"bench", "compressors"},
                                    {"name", "index_codec"},
                                    {"case", {{"codec", codec->name}, {"numel", side * side}, {"ratio", ratio}}},
                                    {"metrics", {{"bits_per_index", bits}}}}
                         .dump()
                  << std::endl;
      } else {
        std::printf("index codec %-14s %5.1f %%: %6.2f bits per position\n", std::string(codec->name).c_str(),
                    ratio * 100, bits);
      }
    }
  }
}

/// Measures how much smaller than the tensor DGC's payload is with each value codec.
void run_value_codecs(const Options& options, const at::Tensor& gradient) {
  for (const compressors::ValueCodec* codec : compressors::value_codecs()) {
    const nlohmann::json params = {{"ratio", 0.001}, {"value_codec", codec->name}};
    const auto dgc = compressors::builtin().make_compressor("dgc", params).value();
    Bytes payload;
    dgc->encode(gradient, {.epoch = 1e6}, payload).value();
    const double smaller = static_cast<double>(gradient.nbytes()) / static_cast<double>(payload.size());
    if (options.json) {
      std::cout << nlohmann::json{{"bench", "compressors"},
                                  {"name", "value_codec"},
                                  {"case", {{"codec", codec->name}, {"numel", side * side}, {"ratio", 0.001}}},
                                  {"metrics", {{"wire_bytes", payload.size()}, {"times_smaller", smaller}}}}
                       .dump()
                << std::endl;
    } else {
      std::printf("dgc 0.1 %%, values as %-6s %9zu bytes (%7.1f x fewer)\n", std::string(codec->name).c_str(),
                  payload.size(), smaller);
    }
  }
}

}  // namespace

int compressors(const Options& options) {
  const std::regex filter(options.filter);
  const auto wanted = [&](const std::string& name) { return std::regex_search(name, filter); };
  const auto print = [&](const Row& row) { options.json ? print_json(row) : print_text(row); };

  at::set_num_threads(1);
  at::manual_seed(1);
  Bench bench;
  for (const CompressorEntry& entry : compressors::builtin().compressors()) {
    if (!wanted(entry.name)) continue;
    const nlohmann::json schema = entry.schema();
    const auto& known = schema.at("properties");
    if (known.contains("atoms")) {  // an eigensolver takes the cube of the side: see run_svd()
      for (const char* atoms : {"entrywise", "dct"}) print(run_compressor(bench, entry, {{"atoms", atoms}}, false));
      continue;
    }
    print(run_compressor(bench, entry, nlohmann::json::object(), false));
    if (known.contains("ratio") && known["ratio"]["default"] != 0.001) {
      print(run_compressor(bench, entry, {{"ratio", 0.001}}, false));
    }
    if (known.contains("check_unsent")) {
      print(run_compressor(bench, entry, {{"check_unsent", false}}, false));
      print(run_compressor(bench, entry, {{"ratio", 0.001}, {"check_unsent", false}}, false));
    }
    if (entry.default_memory != "none") print(run_compressor(bench, entry, nlohmann::json::object(), true));
  }
  if (wanted("torch_topk")) print(run_torch_topk(bench));
  if (wanted("read")) print(run_read(bench));
  if (wanted("atomo_svd")) run_svd(options);
  if (wanted("index_codec")) run_index_codecs(options);
  if (wanted("value_codec")) run_value_codecs(options, bench.gradient);
  return 0;
}

}  // namespace weir::bench
