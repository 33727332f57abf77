#include "bench/layers.hpp"

#include <array>

#include "training/models/mlp.hpp"
#include "training/models/resnet.hpp"
#include "training/models/vgg.hpp"

namespace weir::bench {

std::span<const LayerList> layer_lists() {
  using training::shapes_of;
  constexpr training::ExampleShape fashion{1, 28, 28, 10};
  constexpr training::ExampleShape imagenet{3, 224, 224, 1000};
  static const std::array<LayerList, 3> all{
      LayerList{"mlp", "MLP, 10.7 M parameters", shapes_of(training::Mlp::network({.hidden = 13424}, fashion).value()),
                0.010},
      LayerList{"resnet50", "ResNet-50, 25.6 M parameters",
                shapes_of(training::ResNet::network({.depth = 50}, imagenet).value()), 0.100},
      LayerList{"vgg16", "VGG-16, 138 M parameters", shapes_of(training::Vgg::network({.depth = 16}, imagenet).value()),
                0.150}};
  return all;
}

}  // namespace weir::bench
