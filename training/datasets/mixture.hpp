#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "training/datasets/random.hpp"

namespace weir::training {

/// The mixture of classes that a rank's examples are drawn from: a class comes by its weight among those that have
/// examples left. The weights are whole numbers, so that no rounding error is left of a class that has none.
///
/// A binary indexed tree (Fenwick 1994): entry i has the sum of the weights of the classes before class i + 1, of as
/// many as the lowest bit of i + 1 says. To draw a class and to remove one take O(log classes).
class Mixture {
 public:
  /// `weights`: by class. Their sum is below 2^64.
  explicit Mixture(std::vector<std::uint64_t> weights);

  /// Whether all weights are removed or zero.
  bool empty() const { return total_ == 0; }

  /// A class with some weight; the mixture is not empty.
  std::size_t draw(Random& random);

  /// The class has no examples left: its weight becomes zero.
  void remove(std::size_t of_class);

  /// How many entries of the tree all this has read or written so far.
  std::uint64_t visits() const { return visits_; }

 private:
  std::uint64_t weight(std::size_t of_class);
  std::uint64_t& sum_to(std::size_t end);

  std::vector<std::uint64_t> sums_;
  std::uint64_t total_ = 0;
  std::uint64_t visits_ = 0;
};

}  // namespace weir::training
