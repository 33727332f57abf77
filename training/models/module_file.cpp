#include "training/models/module_file.hpp"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/script.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "training/thrown.hpp"

namespace weir::training {
namespace {

/// The bytes of a file, as LibTorch asks for them. Notes what becomes of the data of tensors.
class InMemory final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit InMemory(Segment bytes) : bytes_(std::move(bytes)) {}

  /// Where in the file the data of a tensor begins.
  void add_tensor(std::uint64_t position) { tensors_.insert(position); }
  /// How many bytes the data has that was read to this place, if that is known.
  std::optional<std::uint64_t> bytes_at(const void* place) const {
    const auto found = read_.find(place);
    return found == read_.end() ? std::nullopt : std::optional(found->second);
  }

  std::size_t size() const override { return bytes_.size(); }
  std::size_t read(std::uint64_t position, void* to, std::size_t count, const char* /*what*/) const override {
    const auto all = bytes_.bytes();
    const auto from = all.subspan(std::min<std::uint64_t>(position, all.size()));
    const auto part = from.first(std::min(count, from.size()));
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    if (tensors_.contains(position)) read_[to] = part.size();
    return part.size();
  }

 private:
  Segment bytes_;
  std::set<std::uint64_t> tensors_;
  mutable std::map<const void*, std::uint64_t> read_;
};

/// Throws what LibTorch throws.
std::shared_ptr<InMemory> with_tensors(const Segment& bytes) {
  auto file = std::make_shared<InMemory>(bytes);
  caffe2::serialize::PyTorchStreamReader reader(file);
  for (const auto& name : reader.getAllRecords()) {
    if (name.starts_with("data/") || name.starts_with("constants/")) file->add_tensor(reader.getRecordOffset(name));
  }
  return file;
}

void forbid_files() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const char* name : {"aten::save", "aten::from_file"}) {
      const auto operations = torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name));  // not the list itself
      for (const auto& operation : operations) {
        torch::jit::deregisterOperator(operation->schema());
      }
    }
  });
}

/// Goes through the values that a module holds, whatever holds them.
class Values {
 public:
  explicit Values(const InMemory& file) : file_(file) {}

  /// Says what is wrong with a tensor, if something is.
  std::optional<std::string> refusal(const c10::IValue& value) {
    if (value.isTensor()) return refusal_of(value.toTensor());
    std::vector<c10::IValue> parts;
    if (value.isList()) {
      for (const c10::IValue& part : value.toListRef()) parts.push_back(part);
    } else if (value.isTuple()) {
      for (const c10::IValue& part : value.toTupleRef().elements()) parts.push_back(part);
    } else if (value.isGenericDict()) {
      for (const auto& entry : value.toGenericDict()) parts.insert(parts.end(), {entry.key(), entry.value()});
    } else if (value.isObject() && seen_.insert(&value.toObjectRef()).second) {
      parts = value.toObjectRef().slots();
    }
    for (const auto& part : parts) {
      if (auto why = refusal(part)) return why;
    }
    return std::nullopt;
  }

 private:
  std::optional<std::string> refusal_of(const at::Tensor& tensor) const {
    if (!tensor.defined()) return std::nullopt;
    if (tensor.layout() != at::kStrided || !tensor.device().is_cpu()) return "a tensor in it is not a plain one";
    // The file's words: each may be any number.
    const auto& sizes = tensor.sizes();
    const auto& strides = tensor.strides();
    __int128 last = tensor.storage_offset();
    bool empty = false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < 0 || strides[i] < 0) return "a tensor in it has negative extents";
      empty = empty || sizes[i] == 0;
      if (sizes[i] > 0) last += __int128{sizes[i] - 1} * strides[i];
      if (last > INT64_MAX) break;
    }
    if (empty) return std::nullopt;
    const std::uint64_t said = tensor.storage().nbytes();
    const __int128 bytes = std::min(said, file_.bytes_at(tensor.storage().data()).value_or(said));
    if (tensor.storage_offset() >= 0 && (last + 1) * static_cast<__int128>(tensor.itemsize()) <= bytes) {
      return std::nullopt;
    }
    return "a tensor in it is larger than its data";
  }

  const InMemory& file_;
  std::set<const void*> seen_;
};

}  // namespace

Result<torch::jit::Module> read_module(const Segment& bytes) {
  forbid_files();
  try {
    const auto file = with_tensors(bytes);
    auto module = torch::jit::load(file, at::kCPU);
    if (const auto why = Values(*file).refusal(module._ivalue())) return Error{Errc::malformed, *why};
    return module;
  } catch (const std::exception& thrown) {
    return Error{Errc::malformed, "LibTorch cannot read it as TorchScript: " + reason_of(thrown)};
  }
}

}  // namespace weir::training
