#pragma once

#include "compressors/begun.hpp"
#include "compressors/memories/tensor_store.hpp"
#include "compressors/quantizers/signs.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// Signum (Bernstein et al., ICML 2018): signSGD of a momentum that each rank keeps for itself,
///
///     m = momentum * m + (1 - momentum) * g;  send sign(m)
///
/// The optimizer must not apply momentum again. Wire format: signs.hpp.
class Signum final : public SignVote {
 public:
  static constexpr std::string_view type_name = "signum";
  static constexpr std::string_view summary = "The majority of the signs of each rank's momentum: one bit per entry.";
  static constexpr std::string_view default_memory = "none";

  struct Options {
    double momentum = 0.9;
  };
  static protocol::Params<Options> params();
  explicit Signum(Options options) : options_(options) {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.stateful = true, .votes = true, .owns_momentum = true}; }
  std::vector<NamedTensor> save() const override;
  Result<void> restore(std::span<const NamedTensor> state) override { return restore_stores(state, {&momenta_}); }

 protected:
  Result<void> do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) override;
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  bool write(std::span<const float> values, const Extent& extent, const Round& round,
             std::span<std::byte> code) override;
  Result<void> begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round> rounds) override;

 private:
  Result<void> encode_from_device(const at::Tensor& gradient, const Round& round, Bytes& out);

  Options options_;
  TensorStore momenta_{"momentum"};
  at::Tensor momentum_;     // in the host's memory, that of the tensor being encoded
  Begun<at::Tensor> next_;  // on a device, what becomes of momenta whose signs are on their way
};

}  // namespace weir::compressors
