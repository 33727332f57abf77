// Writes the inputs of payload_fuzz that are valid payloads: of every compressor, for a few tensors, one for each pass.
//
//     payload_corpus FOLDER           writes them to FOLDER/NAME-..., in the place of what it wrote before
//     payload_corpus --check FOLDER   fails if FOLDER has none of some compressor: run the former, once one is added

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "../compressors/support.hpp"
#include "payload_input.hpp"

namespace {

using namespace weir;
using namespace weir::compressors;
namespace fs = std::filesystem;

/// So large that a search would rather begin with something else.
constexpr std::size_t payload_bytes_max = 1500;

struct Sample {
  std::string name;
  at::Tensor gradient;
};

std::vector<Sample> samples() {
  return {{"vector", test::gaussian(160, 1)}, {"matrix", test::heavy_tailed(192, 2).reshape({16, 12})},
          {"long", test::sparse(2000, 3)},    {"zeros", at::zeros({20})},
          {"one", at::full({1}, -2.5F)},      {"empty", at::zeros({0})}};
}

class Corpus {
 public:
  explicit Corpus(fs::path folder) : folder_(std::move(folder)) {}

  /// Inputs that one compressor has already are left out.
  void add(const std::string& compressor, const std::string& name, const at::Tensor& like, std::uint8_t choice,
           BytesView rest) {
    if (rest.size() > payload_bytes_max) return;
    const auto entries = static_cast<unsigned>(like.numel());
    std::string bytes = {static_cast<char>(entries & 0xFF), static_cast<char>(entries >> 8),
                         static_cast<char>(like.dim() > 1 ? like.size(0) : 0), static_cast<char>(choice)};
    for (const std::byte byte : rest) bytes += static_cast<char>(byte);
    if (!seen_.insert(compressor + bytes).second) return;
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  /// All passes of a round of one rank alone.
  void add_round(const std::string& name, const fuzz::NamedParams& it, const Sample& sample) {
    const auto compressor = builtin().make_compressor(it.name, it.params).value();
    const auto passes = compressor->traits().passes;
    Round round = fuzz::input_round();
    for (round.pass = 0; round.pass < passes.size(); ++round.pass) {
      Bytes out;
      if (!compressor->encode(sample.gradient, round, out)) return;
      const std::string full = name + "-" + sample.name + (passes.size() > 1 ? std::to_string(round.pass) : "");
      const bool gathered = passes[round.pass] == Reduction::gather;
      // A body alone, which a search can change and still have a good checksum.
      const auto format = gathered ? static_cast<std::uint8_t>(out[1]) : std::uint8_t{0};
      const BytesView body = gathered ? open_payload(out, static_cast<Format>(format)).value() : BytesView(out);
      if (round.pass + 1 == passes.size()) add(it.name, full, sample.gradient, format, body);
      if (passes.size() > 1 || compressor->traits().stateful) {
        add(it.name, full + "-round", sample.gradient,
            static_cast<std::uint8_t>(fuzz::PayloadInput::in_a_round | round.pass << 5 | format), body);
      }
      const BytesView result = out;
      if (!compressor->absorb(std::span(&result, 1), round)) return;
    }
  }

 private:
  fs::path folder_;
  std::set<std::string> seen_;
};

int write(const fs::path& folder) {
  for (const auto& entry : builtin().compressors()) {
    for (const auto& file : fs::directory_iterator(folder)) {
      if (file.path().filename().string().starts_with(entry.name + "-")) fs::remove(file);
    }
  }
  Corpus corpus(folder);
  for (const fuzz::NamedParams& it : fuzz::every_choice()) {
    std::string name = it.name;
    for (const auto& [parameter, value] : it.params.items()) name += "-" + value.get<std::string>();
    for (const Sample& sample : samples()) corpus.add_round(name, it, sample);
  }
  // The codecs that a payload names, once.
  for (const test::Case& it : test::cases()) {
    if (it.name != "topk" || it.params.empty() || it.params.contains("ratio")) continue;
    nlohmann::json params = it.params;
    params["ratio"] = 0.2;
    corpus.add_round("topk-" + it.params.begin()->get<std::string>(), {it.name, params}, samples()[0]);
  }
  return 0;
}

int check(const fs::path& folder) {
  int missing = 0;
  for (const auto& entry : builtin().compressors()) {
    const bool there = std::any_of(fs::directory_iterator(folder), fs::directory_iterator(), [&](const auto& file) {
      return file.path().filename().string().starts_with(entry.name + "-");
    });
    if (there) continue;
    std::fprintf(stderr, "%s has no payload in %s: run payload_corpus on it\n", entry.name.c_str(), folder.c_str());
    missing = 1;
  }
  return missing;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2 && arguments[0] == "--check") return check(arguments[1]);
  if (arguments.size() == 1) return write(arguments[0]);
  std::fprintf(stderr, "usage: payload_corpus [--check] FOLDER\n");
  return 2;
}
