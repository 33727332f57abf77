#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "protocol/safetensors.hpp"
#include "training/datasets/shape.hpp"

namespace weir::training {

/// The examples of one part of a safetensors file.
struct Arrays {
  protocol::Dtype dtype = protocol::Dtype::u8;  ///< of the inputs: u8 or f32
  Segment inputs;                               ///< one example after another
  std::vector<std::uint16_t> classes;
};

/// An untrusted file: how many bytes it has, and what reads some of them.
struct ArrayFile {
  std::uint64_t size = 0;
  std::function<Result<Segment>(std::uint64_t offset, std::uint64_t count)> read;
};

/// Reads the tensors `part`_inputs and `part`_classes, and nothing else of the file but its header. The inputs are
/// bytes or floats, with the extents of `shape` behind the number of examples; extents of 1 may be left out. The
/// classes are uint8, int32 or int64. What the header says is checked before any tensor is read. Fails with: malformed
/// (a tensor is missing or has another shape or type, a class is none, a float is no number, more than 2^32 - 1
/// examples), unsupported (a dtype that this build does not know), and with what `file` fails with.
Result<Arrays> read_arrays(const ArrayFile& file, std::string_view part, const ExampleShape& shape);

}  // namespace weir::training
