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
/// character is its place there. It may be a part of a longer text, and lie in several pieces, which follow each other.
/// Read-only once made.
class Text {
 public:
  /// Which bytes there are.
  using Occurring = std::array<bool, 256>;

  /// `occurring`: every byte of the pieces, and maybe others, which are of parts of the text that are not kept.
  Text(std::vector<Segment> pieces, const Occurring& occurring);
  /// A text whose bytes are tokens already, all below `vocabulary`.
  static Text of_tokens(std::vector<Segment> pieces, std::size_t vocabulary);

  std::uint64_t size() const { return size_; }
  std::size_t vocabulary() const { return vocabulary_; }

  /// Of the tokens of all of it, however it is divided into pieces.
  std::uint64_t hash() const;

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

/// The files of a text, in their order. Nothing of them has been read.
struct TextFiles {
  /// The most bytes of a text: examples are numbered with 32 bits.
  static constexpr std::uint64_t bytes_max = UINT32_MAX;

  struct File {
    std::string path;
    std::uint64_t bytes = 0;
  };
  std::vector<File> files;
  std::uint64_t bytes = 0;  ///< of all
};

/// Finds a file, or all files of a folder that end in .txt, in the order of their names. Fails with: not_found, io,
/// malformed (longer than bytes_max in all, or not a file), exhausted (more than 4,096 files).
Result<TextFiles> find_text(const std::string& path);

/// Keeps the bytes from `begin` to `end`. The others are looked at too, for the vocabulary is that of the whole text.
/// Fails with: not_found, io, malformed (not a file any more, or shortened), exhausted (no memory for them).
Result<Text> read_text(const TextFiles& text, std::uint64_t begin, std::uint64_t end);

}  // namespace weir::training
