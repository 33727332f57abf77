#pragma once

#include <memory>
#include <span>
#include <vector>

#include "training/datasets/dataset.hpp"
#include "training/datasets/text_file.hpp"

namespace weir::training {

/// Stretches of a text, each with the token that follows every one of its tokens. An example is a place in the text;
/// its tokens are looked up when it is requested.
class Texts final : public Examples {
 public:
  /// The part of the text that the examples are from.
  struct Stretch {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t tokens = 1;  ///< of an example
    std::uint64_t stride = 1;  ///< from the beginning of one example to that of the next

    /// How many examples there are. Each needs one token more than it has: the one that follows the last.
    std::uint64_t examples() const { return end - begin < tokens + 1 ? 0 : (end - begin - tokens - 1) / stride + 1; }
  };

  /// There must be at least one example.
  Texts(std::shared_ptr<const Text> text, const Stretch& stretch);

  std::span<const std::uint16_t> classes() const override { return sections_; }
  std::uint64_t hash() const override { return text_->hash(); }

 private:
  Batch make(std::span<const std::uint32_t> positions, const Pass* pass, const Batch& memory) const override;

  std::shared_ptr<const Text> text_;
  Stretch stretch_;
  std::vector<std::uint16_t> sections_;
};

}  // namespace weir::training
