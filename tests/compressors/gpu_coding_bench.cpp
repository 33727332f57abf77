// How long coding takes on a GPU, each compressor (or those that are named) at its defaults, with its default memory,
// as JSON lines:
//
//     gpu_coding_bench [MEBIFLOATS, 16 unless given] [NAME...]
//
// Milliseconds are the medians of 20 rounds of one tensor, by the host's clock, with all that the host waits for:
// `compensate` and `encode` from a gradient on the device to a payload on the host, `mean` from two payloads there (or
// their sum) to a mean on the device, `update` of the memory with that, and `select`, which is the part of `encode` up
// to the entries that are sent. `copies` is the sum of the first four over the time of LibTorch's copy_ of the same
// tensor, measured in the same run; of `topk`, `reads` is `select` over half the time of that copy, and `of_torch` is
// `select` over LibTorch's topk.

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "on_a_device.hpp"

namespace weir::compressors::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int rounds = 20;
constexpr int warm_up = 3;

double milliseconds_since(Clock::time_point then) {
  return std::chrono::duration<double, std::milli>(Clock::now() - then).count();
}

using Times = std::array<double, rounds>;

double median(Times times) {
  std::ranges::sort(times);
  return (times[rounds / 2 - 1] + times[rounds / 2]) / 2;
}

void wait(const c10::Stream& stream) { c10::impl::getDeviceGuardImpl(gpu.type())->synchronizeStream(stream); }

/// Median milliseconds of an operation of LibTorch. Many in a row, so that the host's part is hidden by the device's.
double measure(const c10::Stream& stream, const std::function<void()>& run) {
  constexpr int in_a_row = 8;
  Times times;
  for (int i = -warm_up; i < rounds; ++i) {
    wait(stream);
    const auto begun = Clock::now();
    for (int again = 0; again < in_a_row; ++again) run();
    wait(stream);
    if (i >= 0) times[static_cast<std::size_t>(i)] = milliseconds_since(begun) / in_a_row;
  }
  return median(times);
}

struct Limits {
  double copy = 0;
  double topk = 0;
};

/// They differ from round to round, as those of a training do.
std::vector<at::Tensor> gradients(std::int64_t entries) {
  std::vector<at::Tensor> all;
  for (std::uint64_t i = 0; i < 3; ++i) all.push_back(heavy_tailed(entries, 40 + i).view({4096, -1}).to(gpu));
  return all;
}

/// Of two ranks that have sent the same, as an exchange makes it where the compressor decodes.
void make_mean(Compressor& compressor, BytesView payload, const Round& round, at::Tensor& mean) {
  const bool there = compressor.decodes_on(gpu);
  at::Tensor made = there ? mean.zero_() : at::zeros(mean.sizes());
  if (compressor.traits().passes.back() == Reduction::gather) {
    const std::array<BytesView, 2> payloads{payload, payload};
    compressor.decode_add_ranks(payloads, round, 0.5F, made).value();
  } else {
    compressor.decode_add(payload, round, 0.5F, made).value();
  }
  compressor.conclude(made, round).value();
  if (!there) mean.copy_(made);
}

void bench(const CompressorEntry& entry, const std::vector<at::Tensor>& inputs, const Limits& limits,
           const c10::Stream& stream) {
  auto [compressor, memory] =
      make({entry.name, nlohmann::json::object()}, entry.default_memory, entry.default_memory_params());
  at::Tensor mean = at::zeros_like(inputs.front());
  const bool sparse = compressor->traits().sparse;
  const std::size_t passes = compressor->traits().passes.size();
  std::array<Times, 5> times;
  Selection own;
  Bytes payload;
  for (int i = -warm_up; i < rounds; ++i) {
    Round round = round_at(static_cast<std::uint64_t>(i + warm_up), 0);
    round.epoch = 100;  // after any warm-up
    const at::Tensor& gradient = inputs[static_cast<std::size_t>(i + warm_up) % inputs.size()];
    wait(stream);
    auto begun = Clock::now();
    std::array<double, 5> took{};
    const at::Tensor input = memory->compensate(gradient, round).value();
    round.peaks = memory->peaks(round);
    round.bins = memory->bins(round);
    wait(stream);
    took[0] = milliseconds_since(begun);
    if (compressor->traits().selects) {
      begun = Clock::now();
      compressor->select_entries(input, round, own).value();
      took[3] = milliseconds_since(begun);
    }
    begun = Clock::now();
    for (round.pass = 0; round.pass < passes; ++round.pass) {
      payload.clear();
      compressor->encode(input, round, payload, sparse && round.pass + 1 == passes ? &own : nullptr).value();
      const BytesView result = payload;
      compressor->absorb(std::span(&result, 1), round).value();
    }
    --round.pass;
    took[1] = milliseconds_since(begun);
    begun = Clock::now();
    make_mean(*compressor, payload, round, mean);
    wait(stream);
    took[4] = milliseconds_since(begun);
    begun = Clock::now();
    memory->update(round, sparse ? Sent(own) : Sent(*compressor, BytesView(payload), round), mean).value();
    wait(stream);
    took[2] = milliseconds_since(begun);
    for (std::size_t part = 0; i >= 0 && part < took.size(); ++part)
      times[part][static_cast<std::size_t>(i)] = took[part];
  }
  const double compensate = median(times[0]);
  const double encode = median(times[1]);
  const double update = median(times[2]);
  const double select = median(times[3]);
  const double mean_of_two = median(times[4]);
  const auto entries = static_cast<long long>(inputs.front().numel());
  std::printf(
      "{\"coding\": \"%s\", \"memory\": \"%s\", \"entries\": %lld, \"bytes\": %zu, \"compensate_ms\": %.4f, "
      "\"encode_ms\": %.4f, \"select_ms\": %.4f, \"mean_ms\": %.4f, \"update_ms\": %.4f, \"copies\": %.2f",
      entry.name.c_str(), entry.default_memory.c_str(), entries, payload.size(), compensate, encode, select,
      mean_of_two, update, (compensate + encode + mean_of_two + update) / limits.copy);
  if (entry.name == "topk") {
    std::printf(", \"reads\": %.2f, \"of_torch\": %.3f", select / (limits.copy / 2), select / limits.topk);
  }
  std::puts("}");
  std::fflush(stdout);
}

/// Those of these names, or all.
void bench_all(std::int64_t entries, std::span<const std::string> names) {
  const c10::Stream stream = device::coding_stream(gpu);
  const c10::StreamGuard in_stream(stream);
  const std::vector<at::Tensor> inputs = gradients(entries);
  at::Tensor copied = at::empty_like(inputs.front());
  Limits limits;
  limits.copy = measure(stream, [&] { copied.copy_(inputs.front()); });
  limits.topk =
      measure(stream, [&] { inputs.front().view({-1}).abs().topk(std::max<std::int64_t>(1, entries / 1000)); });
  std::printf("{\"limit\": \"copy_\", \"entries\": %lld, \"ms\": %.4f, \"gb_per_s\": %.1f}\n",
              static_cast<long long>(entries), limits.copy, 8.0 * static_cast<double>(entries) / limits.copy / 1e6);
  std::printf("{\"limit\": \"abs().topk(0.1 %%)\", \"entries\": %lld, \"ms\": %.4f}\n", static_cast<long long>(entries),
              limits.topk);
  for (const CompressorEntry& entry : builtin().compressors()) {
    if (!names.empty() && std::ranges::find(names, entry.name) == names.end()) continue;
    if (Case{entry.name, nlohmann::json::object()}.make()->codes_on(gpu)) bench(entry, inputs, limits, stream);
  }
}

}  // namespace
}  // namespace weir::compressors::test

int main(int argc, char** argv) {
  const long long mebi = argc > 1 ? std::strtoll(argv[1], nullptr, 10) : 16;
  const bool has_one = weir::compressors::test::has_gpu();
  if (!has_one || mebi < 1) {
    std::fputs(has_one ? "gpu_coding_bench: give a number of mebifloats above 0\n" : "There is no GPU.\n", stderr);
    return 1;
  }
  const std::vector<std::string> names(argv + std::min(argc, 2), argv + argc);
  weir::compressors::test::bench_all(mebi << 20, names);
  return 0;
}
