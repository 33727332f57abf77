#include "training/datasets/array_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "base/errc.hpp"

namespace weir::training {
namespace {

using protocol::Dtype;
using protocol::StoredTensor;

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
bool is_of_examples(const StoredTensor& tensor, const ExampleShape& shape) {
  if (tensor.shape.empty()) return false;
  const std::vector<std::uint64_t> given(tensor.shape.begin() + 1, tensor.shape.end());
  return without_ones(given) ==
         without_ones({static_cast<std::uint64_t>(shape.channels), static_cast<std::uint64_t>(shape.height),
                       static_cast<std::uint64_t>(shape.width)});
}

Result<const StoredTensor*> named(const protocol::Safetensors& file, const std::string& name) {
  if (const auto* tensor = file.find(name)) return tensor;
  std::string known;
  for (const auto& tensor : file.tensors) known += (known.empty() ? "" : ", ") + tensor.name;
  return malformed("there is no tensor '" + name + "'" + (known.empty() ? "" : "; there is " + known));
}

/// The class of each example, or nothing for a type that is not read.
std::optional<std::int64_t> class_at(const StoredTensor& tensor, std::size_t index) {
  switch (tensor.dtype) {
    case Dtype::u8: return load<std::uint8_t>(tensor.bytes, index);
    case Dtype::i32: return load<std::int32_t>(tensor.bytes, index);
    case Dtype::i64: return load<std::int64_t>(tensor.bytes, index);
    default: return std::nullopt;
  }
}

Result<std::vector<std::uint16_t>> read_classes(const StoredTensor& tensor, std::int64_t classes) {
  if (tensor.shape.size() != 1) return malformed("'" + tensor.name + "' must have one dimension");
  const std::size_t count = tensor.bytes.size() / protocol::size_of(tensor.dtype);
  std::vector<std::uint16_t> result;
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = class_at(tensor, i);
    if (!value) {
      return malformed("'" + tensor.name + "' is of type " + std::string(protocol::name_of(tensor.dtype)) +
                       "; classes are U8, I32 or I64");
    }
    if (*value < 0 || *value >= classes) {
      return malformed("'" + tensor.name + "' has the class " + std::to_string(*value) + " at " + std::to_string(i) +
                       ", and the dataset's parameter classes says that there are " + std::to_string(classes));
    }
    result.push_back(static_cast<std::uint16_t>(*value));
  }
  return result;
}

}  // namespace

Result<Arrays> find_arrays(const protocol::Safetensors& file, std::string_view part, const ExampleShape& shape) {
  const auto inputs = named(file, std::string(part) + "_inputs");
  if (!inputs) return inputs.error();
  const auto classes = named(file, std::string(part) + "_classes");
  if (!classes) return classes.error();
  const StoredTensor& tensor = **inputs;
  if (tensor.dtype != Dtype::u8 && tensor.dtype != Dtype::f32) {
    return malformed("'" + tensor.name + "' is of type " + std::string(protocol::name_of(tensor.dtype)) +
                     "; inputs are U8 or F32");
  }
  if (!is_of_examples(tensor, shape)) {
    return malformed("'" + tensor.name + "' has the shape " + text_of(tensor.shape) +
                     "; the dataset's parameters say [examples, " + std::to_string(shape.channels) + ", " +
                     std::to_string(shape.height) + ", " + std::to_string(shape.width) + "]");
  }
  if (tensor.bytes.empty()) return malformed("'" + tensor.name + "' has no examples");
  auto labels = read_classes(**classes, shape.classes);
  if (!labels) return labels.error();
  if (labels->size() != tensor.shape.front()) {
    return malformed("'" + tensor.name + "' has " + std::to_string(tensor.shape.front()) + " examples, '" +
                     (*classes)->name + "' has " + std::to_string(labels->size()));
  }
  if (tensor.dtype == Dtype::f32) {
    const std::size_t count = tensor.bytes.size() / sizeof(float);
    for (std::size_t i = 0; i < count; ++i) {
      if (!std::isfinite(load<float>(tensor.bytes, i))) {
        return malformed("'" + tensor.name + "' holds something that is not a finite number");
      }
    }
  }
  return Arrays{tensor.dtype, tensor.bytes, std::move(*labels)};
}

}  // namespace weir::training
