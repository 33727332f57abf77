#include "training/models/torch_script.hpp"

#include <torch/script.h>

#include <cstdlib>
#include <exception>
#include <istream>
#include <optional>
#include <set>
#include <stdexcept>
#include <streambuf>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "protocol/worker_environment.hpp"
#include "training/datasets/data_file.hpp"
#include "training/models/model.hpp"

namespace weir::training {
namespace {

/// Reads bytes in memory.
class MemoryStream final : public std::streambuf {
 public:
  explicit MemoryStream(BytesView bytes) {
    char* begin = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data()));  // it is only read
    setg(begin, begin, begin + bytes.size());
  }

 protected:
  pos_type seekoff(off_type offset, std::ios_base::seekdir from, std::ios_base::openmode) override {
    const char* base = from == std::ios_base::beg ? eback() : from == std::ios_base::end ? egptr() : gptr();
    return seekpos(base - eback() + offset, std::ios_base::in);
  }
  pos_type seekpos(pos_type position, std::ios_base::openmode) override {
    const off_type offset = position;
    if (offset < 0 || offset > egptr() - eback()) return pos_type(off_type(-1));
    setg(eback(), eback() + offset, egptr());
    return position;
  }
};

/// What LibTorch says, without traces of its own code: the last line of a message is its reason.
std::string reason_of(const std::exception& thrown) {
  constexpr std::size_t length_max = 300;
  const auto* of_torch = dynamic_cast<const c10::Error*>(&thrown);
  std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : thrown.what();
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (const auto line = text.rfind('\n'); line != std::string::npos) text.erase(0, line + 1);
  return text.substr(0, length_max);
}

std::string written(at::IntArrayRef extents) {
  std::string text;
  for (const auto extent : extents) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text.empty() ? "one number" : text;
}

class Module final : public Model {
 public:
  Module(std::string file, torch::jit::Module module) : file_(std::move(file)), module_(std::move(module)) {
    for (const auto& [name, tensor] : module_.named_parameters()) {
      if (tensor.requires_grad()) parameters_.push_back({name, tensor});
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    try {
      return module_.forward({input}).toTensor();
    } catch (const std::exception& thrown) {
      throw std::runtime_error("model torchscript: " + file_ + " does not run: " + reason_of(thrown));
    }
  }

  std::vector<NamedTensor> parameters() const override { return parameters_; }

  /// A module has no place to declare this: biases and the weights of normalisations are vectors.
  std::vector<bool> decays() const override {
    std::vector<bool> list;
    for (const auto& parameter : parameters_) list.push_back(parameter.tensor.dim() > 1);
    return list;
  }

  /// Asked anew each time: a module may replace its tensors. With those parameters that are not to be trained.
  std::vector<NamedTensor> buffers() const override {
    std::vector<NamedTensor> list;
    for (const auto& [name, tensor] : module_.named_parameters()) {
      if (!tensor.requires_grad()) list.push_back({name, tensor});
    }
    for (const auto& [name, tensor] : module_.named_buffers()) list.push_back({name, tensor});
    return list;
  }

  void set_training(bool training) override { module_.train(training); }

 private:
  std::string file_;
  torch::jit::Module module_;
  std::vector<NamedTensor> parameters_;
};

/// Says what is wrong with the parameters of a module, if something is.
std::optional<std::string> refusal(const std::vector<NamedTensor>& parameters) {
  if (parameters.empty()) return "it has no parameters to train";
  std::set<const void*> memory;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.scalar_type() != at::kFloat || !tensor.is_contiguous() || !tensor.device().is_cpu()) {
      return "its parameter " + name + " is not of contiguous 32-bit floats";
    }
    if (tensor.numel() == 0) return "its parameter " + name + " is empty";
    const auto offset = static_cast<std::size_t>(tensor.storage_offset()) * sizeof(float);
    if (offset + tensor.nbytes() > tensor.storage().nbytes())
      return "its parameter " + name + " is larger than its data";
    if (!memory.insert(tensor.storage().data()).second) {
      return "its parameter " + name + " shares its data with another one";
    }
  }
  return std::nullopt;
}

/// Says what is wrong with what a module makes of two examples, if something is.
std::optional<std::string> refusal(Model& model, const ExampleShape& shape) {
  const bool text = shape.tokens > 0;
  const auto input = text ? at::zeros({2, shape.tokens}, at::kLong)
                          : at::zeros({2, shape.channels, shape.height, shape.width}, at::kFloat);
  std::vector<std::int64_t> expected{2, shape.classes};
  if (text) expected.push_back(shape.tokens);
  model.set_training(true);
  model.set_training(false);  // both must be possible; this one changes no statistics
  const auto output = model.forward(input);
  if (output.scalar_type() != at::kFloat || output.sizes() != expected) {
    return "for two examples of " + written(input.sizes().slice(1)) + " it returns " + written(output.sizes()) +
           " and not the " + written(expected) + " that the dataset asks for";
  }
  if (!output.requires_grad()) return "what it returns does not depend on its parameters";
  return std::nullopt;
}

/// Fails with: malformed (LibTorch cannot read it).
Result<torch::jit::Module> load(const Segment& bytes) {
  MemoryStream buffer(bytes.bytes());
  std::istream stream(&buffer);
  try {
    return torch::jit::load(stream, at::kCPU);
  } catch (const std::exception& thrown) {
    return Error{Errc::malformed, "LibTorch cannot read it as TorchScript: " + reason_of(thrown)};
  }
}

}  // namespace

Result<std::unique_ptr<Model>> TorchScript::make(const Options& options, const ExampleShape& shape) {
  if (auto good = check(options); !good) return good.error();
  const char* directory = std::getenv(protocol::worker_environment::modules.data());
  if (directory == nullptr || *directory == '\0') {
    return Error{Errc::invalid_argument,
                 "model torchscript: this node has no directory of modules; its operator names one with `weir node "
                 "--modules DIR`"};
  }
  const std::string path = std::string(directory) + "/" + options.file;
  const auto refuse = [&path](Errc code, const std::string& why) {
    return Error{code, "model torchscript: " + path + ": " + why};
  };
  auto bytes = read_data_file(path, file_bytes_max);
  if (!bytes) return bytes.error().within("model torchscript");
  auto module = load(*bytes);
  if (!module) return module.error().within("model torchscript: " + path);
  try {
    auto model = std::make_unique<Module>(path, std::move(*module));
    if (const auto why = refusal(model->parameters())) return refuse(Errc::malformed, *why);
    if (const auto why = refusal(*model, shape)) return refuse(Errc::invalid_argument, *why);
    model->set_training(true);
    return model;
  } catch (const std::exception& thrown) {  // it is the module's code that runs
    return refuse(Errc::invalid_argument, reason_of(thrown));
  }
}

}  // namespace weir::training
