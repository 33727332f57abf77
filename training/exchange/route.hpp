#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::training {

/// What a bucket's gradients are sent as.
enum class Form : std::uint8_t {
  coded,    ///< as the compressor encodes them
  float32,  ///< as they are
  bfloat16  ///< rounded to 16 bits, and added up in them
};

/// How a bucket's gradients travel in a step. The same on all ranks.
struct Route {
  Form form = Form::coded;   ///< of a bucket that is coded at all (Bucket::coded)
  std::size_t topology = 0;  ///< position among collectives::all_topologies()
  bool by_owners = false;    ///< gathered payloads go by owners, as the topology says

  friend bool operator==(const Route&, const Route&) = default;
};

std::string_view name_of(Form form);
std::string_view topology_of(const Route& route);

}  // namespace weir::training
