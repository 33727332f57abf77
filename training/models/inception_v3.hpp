#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "protocol/params.hpp"
#include "training/models/network_builder.hpp"

namespace weir::training {

/// Inception v3 of Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (CVPR 2016): blocks of
/// parallel branches, whose channels are put side by side, and large kernels taken apart into 1 x n and n x 1. Batch
/// normalisation follows every convolution, which has no bias. Without the auxiliary classifier; 23,834,568 parameters
/// with 1000 classes. Made for images of 299 x 299.
///
/// With `small_images` the convolutions before the blocks neither halve the image nor cut its border, and nothing is
/// pooled between them: 28 x 28 reaches the first block whole.
struct InceptionV3 {
  static constexpr std::string_view type_name = "inception_v3";
  static constexpr std::string_view summary =
      "Inception v3 without auxiliary classifier; 23,834,568 parameters with 1000 classes";

  struct Options {
    bool small_images = false;
    double dropout = 0.5;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .flag("small_images", &Options::small_images, "the layers before the blocks keep the size of the image")
        .number("dropout", &Options::dropout, {.minimum = 0, .exclusive_maximum = 1},
                "share of the inputs of the layer of classes that is left out in training");
  }

  static Result<Network> network(const Options& options, const ExampleShape& shape) {
    NetworkBuilder net(type_name, shape);
    auto x = Writer{net, ""}.stem(net.images(), options.small_images);
    x = Writer{net, "mixed_5b."}.small_kernels(x, 32);
    x = Writer{net, "mixed_5c."}.small_kernels(x, 64);
    x = Writer{net, "mixed_5d."}.small_kernels(x, 64);
    x = Writer{net, "mixed_6a."}.first_reduction(x);
    x = Writer{net, "mixed_6b."}.kernels_of_seven(x, 128);
    x = Writer{net, "mixed_6c."}.kernels_of_seven(x, 160);
    x = Writer{net, "mixed_6d."}.kernels_of_seven(x, 160);
    x = Writer{net, "mixed_6e."}.kernels_of_seven(x, 192);
    x = Writer{net, "mixed_7a."}.second_reduction(x);
    x = Writer{net, "mixed_7b."}.spread(x);
    x = Writer{net, "mixed_7c."}.spread(x);
    x = net.dropout(net.global_average(x), options.dropout);
    return net.finish(net.linear("fc", x, {.features = shape.classes}));
  }

 private:
  using Value = NetworkBuilder::Value;

  /// Writes one block, whose layers have names with that prefix.
  struct Writer {
    NetworkBuilder& net;
    std::string prefix;

    /// Convolution, normalisation and ReLU.
    Value unit(const std::string& name, Value x, std::int64_t channels, Sides kernel, Sides padding = 0,
               Sides stride = 1) const {
      x = net.convolution(prefix + name + ".conv", x,
                          {.channels = channels,
                           .kernel = kernel,
                           .stride = stride,
                           .padding = padding,
                           .bias = false,
                           .weights = {.draw = Weights::Draw::he_out}});
      return net.relu(net.batch_norm(prefix + name + ".norm", x, {.epsilon = 1e-3}));
    }
    Value across(const std::string& name, Value x, std::int64_t channels, std::int64_t kernel) const {
      return unit(name, x, channels, {1, kernel}, {0, kernel / 2});
    }
    Value down(const std::string& name, Value x, std::int64_t channels, std::int64_t kernel) const {
      return unit(name, x, channels, {kernel, 1}, {kernel / 2, 0});
    }
    Value averaged(Value x, std::int64_t channels) const {
      return unit("pool", net.average_pool(x, {.kernel = 3, .stride = 1, .padding = 1}), channels, 1);
    }
    Value halved(Value x) const { return net.max_pool(x, {.kernel = 3, .stride = 2}); }

    Value stem(Value x, bool small_images) const {
      const std::int64_t stride = small_images ? 1 : 2;
      const std::int64_t padding = small_images ? 1 : 0;
      x = unit("stem1", x, 32, 3, padding, stride);
      x = unit("stem2", x, 32, 3, padding);
      x = unit("stem3", x, 64, 3, 1);
      if (!small_images) x = halved(x);
      x = unit("stem4", x, 80, 1);
      x = unit("stem5", x, 192, 3, padding);
      return small_images ? x : halved(x);
    }

    /// Figure 5 of the paper, with a 5x5 kernel kept whole.
    Value small_kernels(Value x, std::int64_t pooled_channels) const {
      const auto one = unit("one", x, 64, 1);
      const auto five = unit("five2", unit("five1", x, 48, 1), 64, 5, 2);
      auto three = unit("three2", unit("three1", x, 64, 1), 96, 3, 1);
      three = unit("three3", three, 96, 3, 1);
      return net.concatenate({one, five, three, averaged(x, pooled_channels)});
    }

    Value first_reduction(Value x) const {
      const auto three = unit("three", x, 384, 3, 0, 2);
      auto twice = unit("twice2", unit("twice1", x, 64, 1), 96, 3, 1);
      twice = unit("twice3", twice, 96, 3, 0, 2);
      return net.concatenate({three, twice, halved(x)});
    }

    /// Figure 6, with n = 7. `inner` are the channels between the convolutions of a branch.
    Value kernels_of_seven(Value x, std::int64_t inner) const {
      const auto one = unit("one", x, 192, 1);
      auto seven = across("seven2", unit("seven1", x, inner, 1), inner, 7);
      seven = down("seven3", seven, 192, 7);
      auto twice = down("twice2", unit("twice1", x, inner, 1), inner, 7);
      twice = across("twice3", twice, inner, 7);
      twice = down("twice4", twice, inner, 7);
      twice = across("twice5", twice, 192, 7);
      return net.concatenate({one, seven, twice, averaged(x, 192)});
    }

    Value second_reduction(Value x) const {
      const auto three = unit("three2", unit("three1", x, 192, 1), 320, 3, 0, 2);
      auto seven = across("seven2", unit("seven1", x, 192, 1), 192, 7);
      seven = down("seven3", seven, 192, 7);
      seven = unit("seven4", seven, 192, 3, 0, 2);
      return net.concatenate({three, seven, halved(x)});
    }

    /// Figure 7: branches that end in two branches.
    Value spread(Value x) const {
      const auto one = unit("one", x, 320, 1);
      const auto three = unit("three1", x, 384, 1);
      const auto three_across = across("three2a", three, 384, 3);
      const auto three_down = down("three2b", three, 384, 3);
      const auto twice = unit("twice2", unit("twice1", x, 448, 1), 384, 3, 1);
      const auto twice_across = across("twice3a", twice, 384, 3);
      const auto twice_down = down("twice3b", twice, 384, 3);
      return net.concatenate({one, three_across, three_down, twice_across, twice_down, averaged(x, 192)});
    }
  };
};

}  // namespace weir::training
