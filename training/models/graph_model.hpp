#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <vector>

#include "training/models/model.hpp"
#include "training/models/network.hpp"

namespace weir::training {

/// Makes the tensors of a Network and runs it. Parameters and buffers have the names that LibTorch's own modules would
/// give them; the parameters are drawn from a generator.
class GraphModel final : public Model {
 public:
  GraphModel(Network network, const at::Generator& random);

  at::Tensor forward(const at::Tensor& input) override;
  std::vector<NamedTensor> parameters() const override { return parameters_; }
  std::vector<bool> decays() const override;
  std::vector<NamedTensor> buffers() const override { return buffers_; }
  void move_to(at::Device device) override;
  void set_training(bool training) override { training_ = training; }

  const Network& network() const { return network_; }

 private:
  /// What running a layer takes beside its description.
  struct Tensors {
    std::vector<at::Tensor> trained;
    std::vector<at::Tensor> kept;
    std::vector<std::size_t> last_read;  ///< the layers whose outputs nobody reads after this one
  };

  void give_to_layers();

  Network network_;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  std::vector<Tensors> tensors_;  ///< of each layer
  bool training_ = true;
};

}  // namespace weir::training
