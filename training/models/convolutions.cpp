#include "training/models/convolutions.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace weir::training {
namespace {

/// Memory whose holes, which are likely to be given out next, hold no numbers.
std::vector<at::Tensor> spoilt_memory() {
  constexpr std::int64_t pieces = 64;
  constexpr std::int64_t entries = 12'000;  // so few that a hole is not given back to the system
  std::vector<at::Tensor> all;
  for (std::int64_t i = 0; i < pieces; ++i) {
    all.push_back(at::full({entries}, std::numeric_limits<float>::quiet_NaN()));
  }
  for (std::size_t i = 0; i < all.size(); i += 2) all[i] = at::Tensor();
  return all;
}

/// Whether a convolution of more channels than one block, and not of a whole number of them, is right.
bool onednn_is_right() {
  constexpr std::int64_t channels = 20;
  constexpr std::int64_t side = 8;
  constexpr std::int64_t kernel = 5;  // LibTorch computes a single image by itself if it is smaller
  constexpr std::int64_t outputs = 24;
  const auto image = at::linspace(-1, 1, channels * side * side).view({1, channels, side, side});
  const auto weight = at::linspace(1, -1, outputs * channels * kernel * kernel).view({outputs, -1});
  const auto columns = at::im2col(image, {kernel, kernel}, {1, 1}, {0, 0}, {1, 1});
  const auto expected = weight.mm(columns[0]);
  const auto spoilt = spoilt_memory();
  const auto found = at::conv2d(image, weight.view({outputs, channels, kernel, kernel}));
  return at::allclose(found.view_as(expected), expected, /*rtol=*/1e-3, /*atol=*/1e-3);
}

}  // namespace

bool leaves_out_onednn() {
  static const bool left_out = [] {
    const at::NoGradGuard without_gradients;
    if (!at::globalContext().userEnabledMkldnn() || onednn_is_right()) return false;
    at::globalContext().setUserEnabledMkldnn(false);
    return true;
  }();
  return left_out;
}

}  // namespace weir::training
