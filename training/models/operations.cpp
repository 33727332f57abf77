#include "training/models/operations.hpp"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <variant>

namespace weir::training {
namespace {

using Pair = std::array<std::int64_t, 2>;

Pair pair(Sides sides) { return {sides.height, sides.width}; }

/// What LibTorch's modules have as well.
constexpr double running_momentum = 0.1;

/// One overload for each operation. The bias is the second parameter, where a layer may have one.
struct Run {
  Operands& on;

  const at::Tensor& x() const { return on.inputs.front(); }
  const at::Tensor& weight() const { return on.trained[0]; }
  at::Tensor bias() const { return on.trained.size() > 1 ? on.trained[1] : at::Tensor(); }

  at::Tensor operator()(const layers::Input&) const { return x(); }
  at::Tensor operator()(const layers::Convolution& layer) const {
    return at::conv2d(x(), weight(), bias(), pair(layer.stride), pair(layer.padding), Pair{1, 1}, layer.groups);
  }
  at::Tensor operator()(const layers::Linear&) const { return at::linear(x(), weight(), bias()); }
  at::Tensor operator()(const layers::BatchNorm& layer) const {
    if (on.training) {
      TORCH_CHECK(x().numel() > x().size(1), "batch normalisation of a single value for each channel");
      on.kept[2].add_(1);
    }
    return at::batch_norm(x(), weight(), bias(), on.kept[0], on.kept[1], on.training, running_momentum, layer.epsilon,
                          at::globalContext().userEnabledCuDNN());
  }
  at::Tensor operator()(const layers::LayerNorm& layer) const {
    return at::layer_norm(x(), {x().size(-1)}, weight(), bias(), layer.epsilon);
  }
  at::Tensor operator()(const layers::Embedding&) const { return at::embedding(weight(), x()); }
  at::Tensor operator()(const layers::Positions&) const { return x() + weight().slice(0, 0, x().size(1)); }
  at::Tensor operator()(const layers::Lstm& layer) const {
    // In float32 on processors, under autocast too: LibTorch 2 is reported to fail with it in bfloat16 on many.
    const auto without = x().is_cpu() ? c10::autocast_dispatch_keyset : c10::DispatchKeySet();
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(without);
    const auto zeros = at::zeros({layer.depth, x().size(0), layer.features}, x().options());
    return std::get<0>(at::lstm(x(), {zeros, zeros}, {on.trained.data(), on.trained.size()}, /*has_biases=*/true,
                                layer.depth, /*dropout=*/0.0, on.training, /*bidirectional=*/false,
                                /*batch_first=*/true));
  }
  at::Tensor operator()(const layers::Attention& layer) const {
    const auto count = x().size(0);
    const auto tokens = x().size(1);
    const auto features = x().size(2) / 3 / layer.heads;
    // [count, tokens, 3 times the width] to three of [count, heads, tokens, features].
    const auto parts = x().reshape({count, tokens, 3, layer.heads, features}).permute({2, 0, 3, 1, 4});
    const auto queries = parts[0] / std::sqrt(static_cast<double>(features));
    const auto later = at::ones({tokens, tokens}, x().options().dtype(at::kBool)).triu(1);
    const auto scores = at::matmul(queries, parts[1].transpose(-2, -1));
    const auto shares = at::softmax(scores.masked_fill(later, -std::numeric_limits<double>::infinity()), -1);
    const auto values = at::matmul(at::dropout(shares, layer.dropout, on.training), parts[2]);
    return values.transpose(1, 2).flatten(2);
  }
  at::Tensor operator()(const layers::Relu&) const { return at::relu(x()); }
  at::Tensor operator()(const layers::Relu6&) const {
    // LibTorch 1.13 has no gradient of hardtanh for bfloat16 on processors.
    if (x().scalar_type() == at::kBFloat16) return at::relu(x()).clamp_max(6);
    return at::hardtanh(x(), 0, 6);
  }
  at::Tensor operator()(const layers::Gelu&) const { return at::gelu(x()); }
  at::Tensor operator()(const layers::MaxPool& layer) const {
    return at::max_pool2d(x(), pair(layer.kernel), pair(layer.stride), pair(layer.padding), Pair{1, 1}, layer.round_up);
  }
  at::Tensor operator()(const layers::AveragePool& layer) const {
    return at::avg_pool2d(x(), pair(layer.kernel), pair(layer.stride), pair(layer.padding), layer.round_up);
  }
  at::Tensor operator()(const layers::GlobalAverage&) const { return x().mean({2, 3}); }
  at::Tensor operator()(const layers::Flatten&) const { return x().flatten(1); }
  at::Tensor operator()(const layers::Add&) const { return on.inputs[0] + on.inputs[1]; }
  at::Tensor operator()(const layers::Concatenate&) const { return at::cat(on.inputs, 1); }
  at::Tensor operator()(const layers::Dropout& layer) const { return at::dropout(x(), layer.rate, on.training); }
  at::Tensor operator()(const layers::HalvedShortcut& layer) const {
    const auto added = layer.channels - x().size(1);
    const auto halved = x().slice(2, 0, x().size(2), 2).slice(3, 0, x().size(3), 2);
    return at::constant_pad_nd(halved, {0, 0, 0, 0, added / 2, added - added / 2});
  }
  at::Tensor operator()(const layers::ClassesFirst&) const { return x().transpose(1, 2); }
};

}  // namespace

at::Tensor run(const layers::Operation& operation, Operands operands) { return std::visit(Run{operands}, operation); }

}  // namespace weir::training
