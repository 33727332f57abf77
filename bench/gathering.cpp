#include "bench/gathering.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>
#include <utility>
#include <vector>

#include "compressors/catalog.hpp"
#include "compressors/flat.hpp"
#include "compressors/parallel_loops.hpp"
#include "training/exchange/gathered_mean.hpp"

namespace weir::bench {
namespace {

using compressors::Compressor;
using compressors::Round;

constexpr std::int64_t rows = 4096;
constexpr std::int64_t columns = 2048;
constexpr std::array<std::uint32_t, 3> worlds = {4, 16, 64};
constexpr int repetitions = 7;
constexpr double seconds_max = 2;  ///< slow ones are repeated less often
constexpr std::size_t line_bytes = 64;

/// The payloads of all ranks, and what decodes them.
struct Gathered {
  std::unique_ptr<Compressor> compressor;
  Round round;
  std::vector<Bytes> payloads;

  float share() const { return 1 / static_cast<float>(round.world); }
  std::vector<BytesView> views() const { return {payloads.begin(), payloads.end()}; }
  std::size_t wire_bytes() const {
    std::size_t sum = 0;
    for (const Bytes& payload : payloads) sum += payload.size();
    return sum;
  }
};

/// Each rank's gradient is the same one, at other positions.
Gathered encode(const compressors::CompressorEntry& entry, const at::Tensor& gradient, std::uint32_t ranks) {
  Gathered all{.compressor = entry.make(nullptr).value(),
               .round = {.seed = 1, .epoch = 1e6, .world = ranks},
               .payloads = std::vector<Bytes>(ranks)};
  const auto passes = static_cast<std::uint32_t>(all.compressor->traits().passes.size());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const at::Tensor own = at::roll(gradient, 104'729 * rank);
    all.round.rank = rank;
    for (all.round.pass = 0; all.round.pass < passes; ++all.round.pass) {
      Bytes& payload = all.payloads[rank];
      payload.clear();
      all.compressor->encode(own, all.round, payload).value();
      const BytesView result = payload;
      all.compressor->absorb(std::span(&result, 1), all.round).value();
    }
    all.payloads[rank].shrink_to_fit();
  }
  all.round.pass = passes - 1;
  all.round.rank = 0;
  return all;
}

/// The bytes of the mean's cache lines that a decoder must read and write.
std::size_t mean_bytes(const Gathered& gathered, std::size_t entries) {
  constexpr std::size_t line = line_bytes / sizeof(float);
  if (!gathered.compressor->traits().sparse) return 2 * entries * sizeof(float);
  std::vector<bool> touched(entries / line + 1);
  compressors::Selection selection;
  for (const Bytes& payload : gathered.payloads) {
    gathered.compressor->read_entries(payload, gathered.round, entries, selection).value();
    for (const auto position : selection.positions) touched[position / line] = true;
  }
  return 2 * line_bytes * static_cast<std::size_t>(std::ranges::count(touched, true));
}

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Decodes the payloads one after the other.
void decode_one_by_one(const Gathered& gathered, training::Mean& mean, compressors::Selection& selection) {
  Round round = gathered.round;
  mean.positions.clear();
  for (round.rank = 0; round.rank < round.world; ++round.rank) {
    const BytesView payload = gathered.payloads[round.rank];
    if (mean.sparse) {
      gathered.compressor->read_entries(payload, round, static_cast<std::uint64_t>(mean.tensor.numel()), selection)
          .value();
      add_selection(gathered.share(), selection, compressors::flat(mean.tensor));
      mean.positions.insert(mean.positions.end(), selection.positions.begin(), selection.positions.end());
    } else {
      gathered.compressor->decode_add(payload, round, gathered.share(), mean.tensor).value();
    }
  }
}

void copy(const at::Tensor& from, at::Tensor& to) {
  const auto source = compressors::flat(std::as_const(from));
  const auto target = compressors::flat(to);
  compressors::parallel_for_ranges(source.size(), 1, [&](std::size_t begin, std::size_t end) {
    std::memcpy(target.data() + begin, source.data() + begin, (end - begin) * sizeof(float));
  });
}

struct Row {
  std::string name;
  std::uint32_t ranks = 0;
  std::size_t wire_bytes = 0;
  std::size_t mean_bytes = 0;
  int threads = 1;
  // Medians in seconds.
  double one_by_one_one_thread = 0;
  double one_by_one = 0;
  double one_thread = 0;
  double all_threads = 0;
  double limit = 0;
};

Row measure(const Gathered& gathered, const at::Tensor& gradient, at::Tensor& copied, int threads) {
  Row row{.name = std::string(gathered.compressor->name()),
          .ranks = gathered.round.world,
          .wire_bytes = gathered.wire_bytes(),
          .mean_bytes = mean_bytes(gathered, static_cast<std::size_t>(gradient.numel())),
          .threads = threads};
  training::GatheredMean gathered_mean;
  training::Mean mean{
      .tensor = at::zeros_like(gradient), .sparse = gathered.compressor->traits().sparse, .positions = {}};
  compressors::Selection selection;
  const auto views = gathered.views();
  const auto one_by_one = [&] { decode_one_by_one(gathered, mean, selection); };
  const auto together = [&] {
    gathered_mean
        .add(*gathered.compressor, {.of_ranks = views, .round = gathered.round, .share = gathered.share()}, mean)
        .value();
  };
  struct Timed {
    int threads;
    std::function<void()> body;
    double& median;
    std::vector<double> seconds;
  };
  double copying = 0;
  std::vector<Timed> all{{1, one_by_one, row.one_by_one_one_thread, {}},
                         {threads, one_by_one, row.one_by_one, {}},
                         {1, together, row.one_thread, {}},
                         {threads, together, row.all_threads, {}},
                         {threads, [&] { copy(gradient, copied); }, copying, {}}};
  double total = 0;
  for (int i = 0; i <= repetitions && (i < 3 || total < seconds_max); ++i) {
    for (Timed& timed : all) {
      at::set_num_threads(timed.threads);
      const double seconds = seconds_of(timed.body);
      total += seconds;
      if (i > 0) timed.seconds.push_back(seconds);  // the first time touches all memory and starts the threads
    }
  }
  at::set_num_threads(1);
  for (Timed& timed : all) timed.median = median(timed.seconds);
  const double seconds_per_byte = copying / static_cast<double>(2 * gradient.nbytes());
  row.limit = seconds_per_byte * static_cast<double>(row.wire_bytes + row.mean_bytes);
  return row;
}

void print(const Row& row, bool as_json) {
  if (as_json) {
    const nlohmann::json line{
        {"bench", "gathering"},
        {"name", row.name},
        {"case", {{"numel", rows * columns}, {"ranks", row.ranks}, {"threads", row.threads}, {"device", "cpu"}}},
        {"metrics",
         {{"wire_bytes", row.wire_bytes},
          {"mean_bytes", row.mean_bytes},
          {"one_by_one_one_thread_seconds", row.one_by_one_one_thread},
          {"one_by_one_seconds", row.one_by_one},
          {"one_thread_seconds", row.one_thread},
          {"all_threads_seconds", row.all_threads},
          {"limit_seconds", row.limit},
          {"times_faster_than_one_thread", row.one_thread / row.all_threads},
          {"times_faster_than_one_by_one", row.one_by_one / row.all_threads},
          {"over_limit", row.all_threads / row.limit}}}};
    std::cout << line.dump() << std::endl;
    return;
  }
  std::printf("%-12s %5u %9.2f ms %9.2f ms %9.2f ms %9.2f ms %8.2f x %9.2f ms %8.2f x\n", row.name.c_str(), row.ranks,
              row.one_by_one_one_thread * 1e3, row.one_by_one * 1e3, row.one_thread * 1e3, row.all_threads * 1e3,
              row.one_by_one / row.all_threads, row.limit * 1e3, row.all_threads / row.limit);
  std::fflush(stdout);
}

}  // namespace

int gathering(const Options& options) {
  const std::regex filter(options.filter);
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (!options.json) {
    std::printf("%ld floats; one payload after the other, and all together\n", long{rows * columns});
    std::printf("%-12s %5s %12s %9d thr. %12s %9d thr. %10s %12s %10s\n", "", "ranks", "1 by 1", threads, "together",
                threads, "faster", "limit", "over it");
  }
  const at::Tensor gradient = at::randn({rows, columns}, at::kFloat) * 0.003;
  at::Tensor copied = at::zeros_like(gradient);
  for (const auto& entry : compressors::builtin().compressors()) {
    if (!std::regex_search(entry.name, filter)) continue;
    if (entry.make(nullptr).value()->traits().passes.back() != compressors::Reduction::gather) continue;
    for (const auto ranks : worlds)
      print(measure(encode(entry, gradient, ranks), gradient, copied, threads), options.json);
  }
  return 0;
}

}  // namespace weir::bench
