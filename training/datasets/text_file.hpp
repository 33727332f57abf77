#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::training {

/// A text whose characters are bytes, and whose vocabulary is the sorted set of those that occur in it: the token of a
/// character is its place there. The text may lie in several pieces, which follow each other. Read-only once made.
class Text {
 public:
  /// The most bytes of a text: examples are numbered with 32 bits.
  static constexpr std::uint64_t bytes_max = UINT32_MAX;

  explicit Text(std::vector<Segment> pieces);
  /// A text whose bytes are tokens already, all below `vocabulary`.
  static Text of_tokens(std::vector<Segment> pieces, std::size_t vocabulary);

  std::uint64_t size() const { return size_; }
  std::size_t vocabulary() const { return vocabulary_; }

  /// Writes the tokens from `begin` on. They must lie within the text.
  void tokens(std::uint64_t begin, std::span<std::int64_t> out) const;

 private:
  Text() = default;
  void join(std::vector<Segment> pieces);

  std::vector<Segment> pieces_;
  std::vector<std::uint64_t> ends_;  ///< of each piece, in the text
  std::uint64_t size_ = 0;
  std::size_t vocabulary_ = 0;
  std::array<std::uint8_t, 256> token_{};
};

/// Reads a file, or all files of a folder that end in .txt, in the order of their names. Fails with: not_found, io,
/// malformed (longer than bytes_max in all, or not a file), exhausted (more than 4,096 files).
Result<Text> read_text(const std::string& path);

}  // namespace weir::training
