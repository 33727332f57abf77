#include "training/datasets/texts.hpp"

#include <algorithm>
#include <utility>

#include "base/ensure.hpp"

namespace weir::training {

Texts::Texts(std::shared_ptr<const Text> text, const Stretch& stretch) : text_(std::move(text)), stretch_(stretch) {
  const std::uint64_t count = stretch_.examples();
  ensure(stretch_.end <= text_->size() && count > 0, "a stretch of the text with an example");
  const std::uint64_t sections = std::min(text_sections_max, count);
  sections_.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) sections_.push_back(static_cast<std::uint16_t>(i * sections / count));
}

Batch Texts::make(std::span<const std::uint32_t> positions, const Pass* /*pass*/, const Batch& memory) const {
  const std::vector<std::int64_t> sizes{static_cast<std::int64_t>(positions.size()),
                                        static_cast<std::int64_t>(stretch_.tokens)};
  Batch batch{room_in(memory.input, sizes, at::kLong), room_in(memory.target, sizes, at::kLong)};
  const auto tokens = static_cast<std::size_t>(stretch_.tokens);
  std::span<std::int64_t> input(batch.input.data_ptr<std::int64_t>(), positions.size() * tokens);
  std::span<std::int64_t> target(batch.target.data_ptr<std::int64_t>(), input.size());
  for (const auto position : positions) {
    ensure(position < sections_.size(), "an example beyond the last one");
    const std::uint64_t begin = stretch_.begin + position * stretch_.stride;
    text_->tokens(begin, input.first(tokens));
    text_->tokens(begin + 1, target.first(tokens));
    input = input.subspan(tokens);
    target = target.subspan(tokens);
  }
  return batch;
}

}  // namespace weir::training
