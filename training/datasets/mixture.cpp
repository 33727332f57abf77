#include "training/datasets/mixture.hpp"

#include <bit>
#include <numeric>
#include <utility>

namespace weir::training {
namespace {

/// As many weights are in the sum that ends before class `end`.
std::size_t lowest_bit_of(std::size_t end) { return std::size_t{1} << std::countr_zero(end); }

}  // namespace

Mixture::Mixture(std::vector<std::uint64_t> weights)
    : sums_(std::move(weights)), total_(std::accumulate(sums_.begin(), sums_.end(), std::uint64_t{0})) {
  for (std::size_t end = 1; end <= sums_.size(); ++end) {
    const std::size_t next = end + lowest_bit_of(end);  // the shortest sum that contains this one
    if (next <= sums_.size()) sum_to(next) += sum_to(end);
  }
}

std::uint64_t& Mixture::sum_to(std::size_t end) {
  ++visits_;
  return sums_[end - 1];
}

std::size_t Mixture::draw(Random& random) {
  std::uint64_t mark = random.below(total_);
  std::size_t begin = 0;  // the weights before this class add up to no more than the first mark
  for (std::size_t length = std::bit_floor(sums_.size()); length > 0; length /= 2) {
    if (begin + length > sums_.size()) continue;
    const std::uint64_t sum = sum_to(begin + length);
    if (sum > mark) continue;
    mark -= sum;
    begin += length;
  }
  return begin;
}

std::uint64_t Mixture::weight(std::size_t of_class) {
  std::uint64_t weight = sum_to(of_class + 1);
  const std::size_t begin = of_class + 1 - lowest_bit_of(of_class + 1);
  for (std::size_t end = of_class; end > begin; end -= lowest_bit_of(end)) weight -= sum_to(end);
  return weight;
}

void Mixture::remove(std::size_t of_class) {
  const std::uint64_t removed = weight(of_class);
  for (std::size_t end = of_class + 1; end <= sums_.size(); end += lowest_bit_of(end)) sum_to(end) -= removed;
  total_ -= removed;
}

}  // namespace weir::training
