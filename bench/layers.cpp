#include "bench/layers.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weir::bench {
namespace {

/// Collects parameters in the order in which they are used.
class Layers {
 public:
  void convolution(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t side, bool bias) {
    add(name + ".weight", {out, in, side, side});
    if (bias) add(name + ".bias", {out});
  }
  void norm(const std::string& name, std::int64_t channels) {
    add(name + ".weight", {channels});
    add(name + ".bias", {channels});
  }
  void linear(const std::string& name, std::int64_t in, std::int64_t out) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  }

  std::vector<protocol::ParameterShape> take() { return std::move(parameters_); }

 private:
  void add(std::string name, std::vector<std::int64_t> extents) {
    parameters_.push_back({std::move(name), std::move(extents)});
  }

  std::vector<protocol::ParameterShape> parameters_;
};

std::vector<protocol::ParameterShape> mlp() {
  Layers layers;
  layers.linear("fc1", 28 * 28, 13424);
  layers.linear("fc2", 13424, 10);
  return layers.take();
}

/// Four stages of bottlenecks: 1x1 down, 3x3, 1x1 up to four times the width, around a shortcut.
std::vector<protocol::ParameterShape> resnet50() {
  constexpr std::array<int, 4> blocks{3, 4, 6, 3};
  Layers layers;
  layers.convolution("conv1", 3, 64, 7, false);
  layers.norm("bn1", 64);
  std::int64_t in = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::int64_t width = std::int64_t{64} << stage;
    const std::int64_t out = 4 * width;
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
      layers.convolution(name + "conv1", in, width, 1, false);
      layers.norm(name + "bn1", width);
      layers.convolution(name + "conv2", width, width, 3, false);
      layers.norm(name + "bn2", width);
      layers.convolution(name + "conv3", width, out, 1, false);
      layers.norm(name + "bn3", out);
      if (block == 0) {
        layers.convolution(name + "downsample.0", in, out, 1, false);
        layers.norm(name + "downsample.1", out);
      }
      in = out;
    }
  }
  layers.linear("fc", in, 1000);
  return layers.take();
}

/// Thirteen convolutions of 3x3 and three linear layers.
std::vector<protocol::ParameterShape> vgg16() {
  constexpr std::array<std::int64_t, 13> widths{64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512};
  Layers layers;
  std::int64_t in = 3;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    layers.convolution("conv" + std::to_string(i + 1), in, widths[i], 3, true);
    in = widths[i];
  }
  layers.linear("fc1", in * 7 * 7, 4096);
  layers.linear("fc2", 4096, 4096);
  layers.linear("fc3", 4096, 1000);
  return layers.take();
}

}  // namespace

std::span<const LayerList> layer_lists() {
  static const std::array<LayerList, 3> all{LayerList{"mlp", "MLP, 10.7 M parameters", mlp(), 0.010},
                                            LayerList{"resnet50", "ResNet-50, 25.6 M parameters", resnet50(), 0.100},
                                            LayerList{"vgg16", "VGG-16, 138 M parameters", vgg16(), 0.150}};
  return all;
}

}  // namespace weir::bench
