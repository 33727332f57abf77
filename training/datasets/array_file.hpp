#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "protocol/safetensors.hpp"
#include "training/datasets/shape.hpp"

namespace weir::training {

/// The examples of one part of a safetensors file. The view is into the file.
struct Arrays {
  protocol::Dtype dtype = protocol::Dtype::u8;  ///< of the inputs: u8 or f32
  BytesView inputs;                             ///< one example after another
  std::vector<std::uint16_t> classes;
};

/// Finds the tensors `part`_inputs and `part`_classes of an untrusted file. The inputs are bytes or floats, with the
/// extents of `shape` behind the number of examples; extents of 1 may be left out. The classes are uint8, int32 or
/// int64. Memory is taken for the classes alone. Fails with: malformed (a tensor is missing or has another shape or
/// type, a class is none, a float is no number).
Result<Arrays> find_arrays(const protocol::Safetensors& file, std::string_view part, const ExampleShape& shape);

}  // namespace weir::training
