#include "training/models/torch_script.hpp"

#include <ATen/Parallel.h>
#include <torch/script.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <future>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "protocol/training_shape.hpp"
#include "protocol/worker_environment.hpp"
#include "training/datasets/data_file.hpp"
#include "training/models/model.hpp"
#include "training/models/module_file.hpp"
#include "training/tensor_file.hpp"
#include "training/thrown.hpp"

namespace weir::training {
namespace {

class Module final : public Model {
 public:
  Module(std::string file, torch::jit::Module module) : file_(std::move(file)), module_(std::move(module)) {
    find_parameters();
    for (const auto& [name, tensor] : module_.named_buffers()) {
      if (tensor.scalar_type() == at::kFloat && tensor.isfinite().all().item<bool>()) statistics_.insert(name);
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    try {
      return run(input);
    } catch (const std::exception& thrown) {
      throw std::runtime_error("model torchscript: " + file_ + " does not run: " + reason_of(thrown));
    }
  }

  /// As forward(), with the exceptions of LibTorch.
  at::Tensor run(const at::Tensor& input) { return module_.forward({input}).toTensor(); }

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

  /// Neither parameters that are not to be trained nor masks, which have infinities, follow any examples.
  std::vector<NamedTensor> statistics() const override {
    std::vector<NamedTensor> list;
    for (const auto& [name, tensor] : module_.named_buffers()) {
      if (statistics_.contains(name)) list.push_back({name, tensor});
    }
    return list;
  }

  void move_to(at::Device device) override {
    module_.to(device);
    find_parameters();
  }

  void set_training(bool training) override { module_.train(training); }

 private:
  void find_parameters() {
    parameters_.clear();
    for (const auto& [name, tensor] : module_.named_parameters()) {
      if (tensor.requires_grad()) parameters_.push_back({name, tensor});
    }
  }

  std::string file_;
  torch::jit::Module module_;
  std::vector<NamedTensor> parameters_;
  std::set<std::string> statistics_;  ///< names
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
    if (!memory.insert(tensor.storage().data()).second) {
      return "its parameter " + name + " shares its data with another one";
    }
  }
  return std::nullopt;
}

/// Says which buffer of a module a checkpoint could not keep, if there is one.
std::optional<std::string> buffer_refusal(const std::vector<NamedTensor>& buffers) {
  for (const auto& [name, tensor] : buffers) {
    if (!can_be_stored(tensor)) {
      return "its buffer " + name + " is of " + c10::toString(tensor.scalar_type()) +
             " numbers, which a checkpoint cannot keep";
    }
  }
  return std::nullopt;
}

/// Says what is wrong with what a module makes of two examples, if something is.
std::optional<std::string> refusal(Module& model, const ExampleShape& shape) {
  const bool text = shape.tokens > 0;
  const auto input = text ? at::zeros({2, shape.tokens}, at::kLong)
                          : at::zeros({2, shape.channels, shape.height, shape.width}, at::kFloat);
  std::vector<std::int64_t> expected{2, shape.classes};
  if (text) expected.push_back(shape.tokens);
  model.set_training(true);
  model.set_training(false);  // both must be possible; this one changes no statistics
  const std::string examples = "for two examples of " + protocol::extents_text(input.sizes().slice(1));
  at::Tensor output;
  try {
    output = model.run(input);
  } catch (const std::exception& thrown) {
    return examples + ", as the dataset has them, it does not run: " + reason_of(thrown);
  }
  if (output.scalar_type() != at::kFloat || output.sizes() != expected) {
    return examples + " it returns " + protocol::extents_text(output.sizes()) + " and not the " +
           protocol::extents_text(expected) + " that the dataset asks for";
  }
  if (!output.requires_grad()) return "what it returns does not depend on its parameters";
  return std::nullopt;
}

/// Loads a module and tries it.
Result<std::unique_ptr<Model>> load(const std::string& path, const Segment& bytes, const ExampleShape& shape) {
  const auto refuse = [&path](Errc code, const std::string& why) { return Error{code, path + ": " + why}; };
  auto module = read_module(bytes);
  if (!module) {
    return Error{module.error().code,
                 path + ": " + module.error().context + "; torch.jit.script(model).save(FILE) makes such files"};
  }
  try {
    auto model = std::make_unique<Module>(path, std::move(*module));
    if (const auto why = refusal(model->parameters())) return refuse(Errc::malformed, *why);
    if (const auto why = buffer_refusal(model->buffers())) return refuse(Errc::malformed, *why);
    if (const auto why = refusal(*model, shape)) return refuse(Errc::invalid_argument, *why);
    model->set_training(true);
    return model;
  } catch (const std::exception& thrown) {  // it is the module's code that runs
    return refuse(Errc::invalid_argument, reason_of(thrown));
  }
}

/// Waits for work on a thread of its own. If it takes longer, nobody can end it: it goes on until the process, which
/// has nothing else to do without its model, is ended.
template <class Work>
auto within(double seconds, Work work) -> std::optional<decltype(work())> {
  std::packaged_task<decltype(work())()> task([work = std::move(work), threads = at::get_num_threads()] {
    at::set_num_threads(threads);
    return work();
  });
  auto done = task.get_future();
  std::thread(std::move(task)).detach();
  if (done.wait_for(std::chrono::duration<double>(seconds)) != std::future_status::ready) return std::nullopt;
  return done.get();
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
  const auto bytes = read_data_file(path, file_bytes_max);
  if (!bytes) {
    const std::string advice = "; its operator puts the file there, on every node";
    return Error{bytes.error().code, "model torchscript: " + bytes.error().context + advice};
  }
  auto loaded = within(options.load_seconds, [path, bytes = *bytes, shape] { return load(path, bytes, shape); });
  if (!loaded) {
    std::ostringstream seconds;
    seconds << options.load_seconds;
    return Error{Errc::deadline_exceeded, "model torchscript: " + path + ": it could not be loaded and tried within " +
                                              seconds.str() + " s, the parameter load_seconds: does its code end?"};
  }
  if (!*loaded) return loaded->error().within("model torchscript");
  return std::move(*loaded);
}

}  // namespace weir::training
