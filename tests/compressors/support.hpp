#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/ensure.hpp"
#include "compressors/catalog.hpp"
#include "compressors/compressor.hpp"
#include "compressors/sent.hpp"
#include "protocol/safetensors.hpp"
#include "tests/compressors/tensors.hpp"

namespace weir::compressors::test {

/// Gradients of LeNet and of a residual network, recorded from trainings on Fashion-MNIST by record_gradients.cpp:
/// whole tensors of convolutions, normalisations and layers, from an early and from a later step. Named
/// "lenet.step5.conv1.weight" and so on.
inline std::vector<NamedTensor> recorded_gradients() {
  std::vector<NamedTensor> all;
  for (const std::string model : {"lenet", "resnet"}) {
    std::ifstream in(WEIR_RECORDED_GRADIENTS "/" + model + ".safetensors", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    Bytes bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    const auto file = protocol::read_safetensors(Segment::own(std::move(bytes))).value();
    for (const auto& stored : file.tensors) {
      at::Tensor tensor = at::empty(std::vector<std::int64_t>(stored.shape.begin(), stored.shape.end()), at::kFloat);
      ensure(stored.dtype == protocol::Dtype::f32 && tensor.nbytes() == stored.bytes.size(), "recorded as floats");
      std::memcpy(tensor.data_ptr(), stored.bytes.data(), stored.bytes.size());
      all.push_back({model + "." + stored.name, std::move(tensor)});
    }
  }
  return all;
}

inline double squared_norm(const at::Tensor& x) { return x.to(at::kDouble).pow(2).sum().item<double>(); }

/// A compressor of the catalog with given parameters.
struct Case {
  std::string name;
  nlohmann::json params;

  std::unique_ptr<Compressor> make() const { return builtin().make_compressor(name, params).value(); }
};

inline void PrintTo(const Case& it, std::ostream* out) { *out << it.name << it.params.dump(); }

inline std::vector<std::string> compressor_names() {
  std::vector<std::string> names;
  for (const CompressorEntry& entry : builtin().compressors()) names.push_back(entry.name);
  return names;
}

/// Combinations of parameters with an effect that none of them has alone.
inline std::vector<Case> combinations() {
  return {{"terngrad", {{"clip", 0}, {"scale", "local"}}},
          {"atomo", {{"atoms", "entrywise"}, {"quantize_bits", 4}}},
          {"atomo", {{"atoms", "dct"}, {"quantize_bits", 4}}},
          {"atomo", {{"atoms", "entrywise"}, {"ratio", 0.3}}},
          {"atomo", {{"atoms", "dct"}, {"ratio", 0.3}}},
          {"chunk", {{"warmup_dense", 0.5}, {"warmup_schedule", "authors"}}},
          {"dgc", {{"warmup_dense", 0.5}, {"warmup_schedule", "paper"}}},
          {"randomk", {{"unbiased", true}, {"value_codec", "int8"}}}};
}

/// Every compressor with its defaults, with each value of its choices and flags, the ends of its ranges and a few
/// ratios, one change at a time, and with the combinations.
inline std::vector<Case> cases() {
  std::vector<Case> all;
  for (const CompressorEntry& entry : builtin().compressors()) {
    const auto add = [&](const nlohmann::json& params) {
      // The ends of a range may be invalid together with the other parameters, or without effect.
      if (entry.make(params)) all.push_back({entry.name, params});
    };
    add(nlohmann::json::object());
    const nlohmann::json schema = entry.schema();
    for (const auto& [parameter, property] : schema.at("properties").items()) {
      std::vector<nlohmann::json> values = property.value("enum", nlohmann::json::array());
      if (property.at("type") == "boolean") values = {false, true};
      for (const char* end : {"minimum", "maximum"}) {
        if (!property.contains(end)) continue;
        const double value = property.at(end).get<double>();
        if (property.at("type") == "integer") values.push_back(static_cast<std::int64_t>(value));
        if (property.at("type") == "number") values.push_back(value);
      }
      if (parameter == "ratio") values = {0.02, 0.3, 1.0};
      for (const auto& value : values) {
        if (value != property.at("default")) add({{parameter, value}});
      }
    }
    for (const Case& it : combinations()) {
      if (it.name == entry.name) add(it.params);
    }
  }
  return all;
}

/// A round after any warm-up, so that a ratio has its final value.
inline Round round_at(std::uint64_t step, std::uint32_t tensor = 0) {
  return {.seed = 42, .step = step, .epoch = 1000, .tensor = tensor};
}

/// `round` with its last pass.
inline Round last_pass(const Compressor& compressor, Round round) {
  round.pass = static_cast<std::uint32_t>(compressor.traits().passes.size()) - 1;
  return round;
}

/// Runs all passes of a round with a single rank, up to the last absorb, and returns the payload of the last pass. Uses
/// the memory of `out`.
inline Bytes encoded(Compressor& compressor, const at::Tensor& x, Round round, Bytes out = {}) {
  const auto passes = compressor.traits().passes.size();
  for (round.pass = 0; round.pass < passes; ++round.pass) {
    out.clear();
    compressor.encode(x, round, out).value();
    const BytesView result = out;
    compressor.absorb(std::span(&result, 1), round).value();
  }
  return out;
}

/// The positions of the entries that a payload carries, in ascending order.
inline Result<std::vector<std::uint32_t>> positions_in(Compressor& compressor, BytesView payload, const Round& round,
                                                       std::uint64_t entries) {
  Selection selection;
  if (auto got = compressor.read_entries(payload, round, entries, selection); !got) return got.error();
  std::ranges::sort(selection.positions);
  return selection.positions;
}

/// What a rank that encoded `payload` has sent, for Memory::update().
class SentPayload {
 public:
  SentPayload(Compressor& compressor, BytesView payload, const Round& round, const at::Tensor& like)
      : round_(round), sent_(compressor, payload, round_) {
    if (!compressor.traits().sparse) return;
    compressor.read_entries(payload, round_, static_cast<std::uint64_t>(like.numel()), entries_).value();
    sent_ = Sent(entries_);
  }
  SentPayload(const SentPayload&) = delete;
  SentPayload& operator=(const SentPayload&) = delete;

  operator const Sent&() const { return sent_; }

 private:
  const Round round_;
  Selection entries_;
  Sent sent_;
};

inline at::Tensor decoded(Compressor& compressor, BytesView payload, const at::Tensor& like, const Round& round) {
  at::Tensor sum = at::zeros(like.sizes(), at::kFloat);
  compressor.decode_add(payload, last_pass(compressor, round), 1, sum).value();
  return sum;
}

}  // namespace weir::compressors::test
