#include "training/datasets/array_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/errc.hpp"

namespace weir::training {
namespace {

using protocol::Dtype;
using protocol::TensorEntry;

/// Examples are numbered with 32 bits.
constexpr std::uint64_t examples_max = UINT32_MAX;

Error malformed(std::string what) { return {Errc::malformed, std::move(what)}; }

/// A number that may lie at any address.
template <class T>
T load(BytesView bytes, std::size_t index) {
  T value{};
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

std::string text_of(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const auto extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

std::vector<std::uint64_t> without_ones(std::vector<std::uint64_t> extents) {
  std::erase(extents, std::uint64_t{1});
  return extents;
}

/// Whether the extents behind the first are those of one example.
bool is_of_examples(const TensorEntry& tensor, const ExampleShape& shape) {
  if (tensor.shape.empty()) return false;
  const std::vector<std::uint64_t> given(tensor.shape.begin() + 1, tensor.shape.end());
  return without_ones(given) ==
         without_ones({static_cast<std::uint64_t>(shape.channels), static_cast<std::uint64_t>(shape.height),
                       static_cast<std::uint64_t>(shape.width)});
}

Result<protocol::SafetensorsHeader> read_header(const ArrayFile& file) {
  constexpr std::uint64_t length_bytes = sizeof(std::uint64_t);
  const auto length = file.read(0, std::min(file.size, length_bytes));
  if (!length) return length.error();
  const auto header_bytes = protocol::safetensors_header_bytes(length->bytes(), file.size);
  if (!header_bytes) return header_bytes.error();
  // The length is not read again: the file may change at any time.
  const auto text = file.read(length_bytes, *header_bytes - length_bytes);
  if (!text) return text.error();
  Bytes beginning;
  append(beginning, length->bytes());
  append(beginning, text->bytes());
  return protocol::read_safetensors_header(beginning, file.size);
}

Result<const TensorEntry*> named(const protocol::SafetensorsHeader& header, const std::string& name) {
  const auto found = std::ranges::find(header.tensors, name, &TensorEntry::name);
  if (found != header.tensors.end()) return &*found;
  std::string known;
  for (const auto& tensor : header.tensors) known += (known.empty() ? "" : ", ") + tensor.name;
  return malformed("there is no tensor '" + name + "'" + (known.empty() ? "" : "; there is " + known));
}

Result<void> check_inputs(const TensorEntry& inputs, const ExampleShape& shape) {
  if (inputs.dtype != Dtype::u8 && inputs.dtype != Dtype::f32) {
    return malformed("'" + inputs.name + "' is of type " + std::string(protocol::name_of(inputs.dtype)) +
                     "; inputs are U8 or F32");
  }
  if (!is_of_examples(inputs, shape)) {
    return malformed("'" + inputs.name + "' has the shape " + text_of(inputs.shape) +
                     "; the dataset's parameters say [examples, " + std::to_string(shape.channels) + ", " +
                     std::to_string(shape.height) + ", " + std::to_string(shape.width) + "]");
  }
  if (inputs.bytes == 0) return malformed("'" + inputs.name + "' has no examples");
  if (inputs.shape.front() > examples_max) {
    return malformed("'" + inputs.name + "' has " + std::to_string(inputs.shape.front()) + " examples; at most " +
                     std::to_string(examples_max) + " are read");
  }
  return {};
}

Result<void> check_classes(const TensorEntry& classes, const TensorEntry& inputs) {
  if (classes.dtype != Dtype::u8 && classes.dtype != Dtype::i32 && classes.dtype != Dtype::i64) {
    return malformed("'" + classes.name + "' is of type " + std::string(protocol::name_of(classes.dtype)) +
                     "; classes are U8, I32 or I64");
  }
  if (classes.shape.size() != 1) return malformed("'" + classes.name + "' must have one dimension");
  if (classes.shape.front() != inputs.shape.front()) {
    return malformed("'" + inputs.name + "' has " + std::to_string(inputs.shape.front()) + " examples, '" +
                     classes.name + "' has " + std::to_string(classes.shape.front()));
  }
  return {};
}

std::int64_t class_at(Dtype dtype, BytesView bytes, std::size_t index) {
  if (dtype == Dtype::u8) return load<std::uint8_t>(bytes, index);
  return dtype == Dtype::i32 ? load<std::int32_t>(bytes, index) : load<std::int64_t>(bytes, index);
}

Result<std::vector<std::uint16_t>> read_classes(const ArrayFile& file, const TensorEntry& tensor,
                                                std::int64_t classes) {
  const auto bytes = file.read(tensor.offset, tensor.bytes);
  if (!bytes) return bytes.error();
  const std::size_t count = tensor.shape.front();
  std::vector<std::uint16_t> result;
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = class_at(tensor.dtype, bytes->bytes(), i);
    if (value < 0 || value >= classes) {
      return malformed("'" + tensor.name + "' has the class " + std::to_string(value) + " at " + std::to_string(i) +
                       ", and the dataset's parameter classes says that there are " + std::to_string(classes));
    }
    result.push_back(static_cast<std::uint16_t>(value));
  }
  return result;
}

Result<Segment> read_inputs(const ArrayFile& file, const TensorEntry& tensor) {
  auto bytes = file.read(tensor.offset, tensor.bytes);
  if (!bytes || tensor.dtype != Dtype::f32) return bytes;
  const std::size_t count = bytes->size() / sizeof(float);
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(load<float>(bytes->bytes(), i))) {
      return malformed("'" + tensor.name + "' holds something that is not a finite number");
    }
  }
  return bytes;
}

}  // namespace

Result<Arrays> read_arrays(const ArrayFile& file, std::string_view part, const ExampleShape& shape) {
  const auto header = read_header(file);
  if (!header) return header.error();
  const auto inputs = named(*header, std::string(part) + "_inputs");
  if (!inputs) return inputs.error();
  const auto classes = named(*header, std::string(part) + "_classes");
  if (!classes) return classes.error();
  if (auto fits = check_inputs(**inputs, shape); !fits) return fits.error();
  if (auto fits = check_classes(**classes, **inputs); !fits) return fits.error();
  // The small tensor first: what it was read from is given back before the large one is read.
  auto labels = read_classes(file, **classes, shape.classes);
  if (!labels) return labels.error();
  auto pixels = read_inputs(file, **inputs);
  if (!pixels) return pixels.error();
  return Arrays{(*inputs)->dtype, std::move(*pixels), std::move(*labels)};
}

}  // namespace weir::training
