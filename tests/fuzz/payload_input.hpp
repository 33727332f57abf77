#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "compressors/catalog.hpp"
#include "compressors/codecs/payload.hpp"

namespace weir::compressors::fuzz {

/// An input of payload_fuzz: four bytes that determine how the rest is used.
///
///     0, 1   entries of the tensor, modulo 4096
///     2      rows of a matrix, modulo 64; 0 and 1: not a matrix
///     3      low five bits: the format of which the rest is a body, 0 if the rest is a whole payload
///            next two bits: the pass among whose results the rest is, if the high bit is set
struct PayloadInput {
  std::vector<std::int64_t> shape;
  std::uint8_t format = 0;
  std::optional<std::uint32_t> pass;
  BytesView rest;

  static constexpr std::size_t head_bytes = 4;
  static constexpr std::uint8_t in_a_round = 0x80;

  static std::optional<PayloadInput> of(std::span<const std::uint8_t> bytes) {
    if (bytes.size() < head_bytes) return std::nullopt;
    PayloadInput input;
    const std::int64_t entries = (bytes[0] | bytes[1] << 8) % 4096;
    const std::int64_t rows = bytes[2] % 64;
    input.shape = rows > 1 ? std::vector{rows, entries / rows} : std::vector{entries};
    input.format = static_cast<std::uint8_t>((bytes[3] & 0x1F) % formats_end);
    if (bytes[3] & in_a_round) input.pass = bytes[3] >> 5 & 3;
    input.rest = std::as_bytes(bytes.subspan(head_bytes));
    return input;
  }
};

/// The round in which gradients of the corpus are encoded and all inputs decoded. The seed determines the positions of
/// `seeded` payloads.
inline Round input_round() { return {.seed = 42, .step = 3, .epoch = 1000}; }

struct NamedParams {
  std::string name;
  nlohmann::json params;
};

/// Every compressor with its defaults and with each value of its choices, except for the codecs, which payloads name
/// themselves.
inline std::vector<NamedParams> every_choice() {
  std::vector<NamedParams> all;
  for (const CompressorEntry& entry : builtin().compressors()) {
    all.push_back({entry.name, nlohmann::json::object()});
    const nlohmann::json schema = entry.schema();
    for (const auto& [parameter, property] : schema.at("properties").items()) {
      if (parameter.ends_with("_codec")) continue;
      for (const auto& choice : property.value("enum", nlohmann::json::array())) {
        const nlohmann::json params{{parameter, choice}};
        // Some change nothing without another parameter, and are refused.
        if (choice != property.at("default") && entry.make(params)) all.push_back({entry.name, params});
      }
    }
  }
  return all;
}

}  // namespace weir::compressors::fuzz
