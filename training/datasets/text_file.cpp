#include "training/datasets/text_file.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "training/datasets/data_file.hpp"

namespace weir::training {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t files_max = 4096;

/// The file itself, or the texts of the folder.
Result<std::vector<std::string>> files_of(const std::string& path) {
  std::error_code failure;
  if (!fs::is_directory(path, failure)) return std::vector{path};
  std::vector<std::string> files;
  fs::directory_iterator entries(path, failure);
  for (; !failure && entries != fs::directory_iterator(); entries.increment(failure)) {
    std::error_code ignored;
    if (entries->path().extension() != ".txt" || !entries->is_regular_file(ignored)) continue;
    if (files.size() == files_max) {
      return Error{Errc::exhausted, path + ": more than " + std::to_string(files_max) + " files that end in .txt"};
    }
    files.push_back(entries->path().string());
  }
  if (failure) return Error{Errc::io, path + ": " + failure.message()};
  if (files.empty()) return Error{Errc::not_found, path + ": no file in this folder ends in .txt"};
  std::ranges::sort(files);
  return files;
}

}  // namespace

Text::Text(std::vector<Segment> pieces) {
  std::array<bool, 256> occurs{};
  for (const auto& piece : pieces) {
    for (const auto byte : piece.bytes()) occurs[std::to_integer<std::size_t>(byte)] = true;
  }
  for (std::size_t byte = 0; byte < occurs.size(); ++byte) {
    if (occurs[byte]) token_[byte] = static_cast<std::uint8_t>(vocabulary_++);
  }
  join(std::move(pieces));
}

Text Text::of_tokens(std::vector<Segment> pieces, std::size_t vocabulary) {
  Text text;
  text.vocabulary_ = vocabulary;
  for (std::size_t byte = 0; byte < text.token_.size(); ++byte) text.token_[byte] = static_cast<std::uint8_t>(byte);
  text.join(std::move(pieces));
  return text;
}

void Text::join(std::vector<Segment> pieces) {
  pieces_ = std::move(pieces);
  for (const auto& piece : pieces_) {
    size_ += piece.size();
    ends_.push_back(size_);
  }
}

void Text::tokens(std::uint64_t begin, std::span<std::int64_t> out) const {
  ensure(begin <= size_ && out.size() <= size_ - begin, "tokens beyond the end of the text");
  auto piece = static_cast<std::size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
  for (std::size_t done = 0; done < out.size(); ++piece) {
    const auto bytes = pieces_[piece].bytes();
    const std::size_t from = bytes.size() - static_cast<std::size_t>(ends_[piece] - begin - done);
    const std::size_t count = std::min(bytes.size() - from, out.size() - done);
    for (std::size_t i = 0; i < count; ++i) out[done + i] = token_[std::to_integer<std::size_t>(bytes[from + i])];
    done += count;
  }
}

Result<Text> read_text(const std::string& path) {
  const auto files = files_of(path);
  if (!files) return files.error();
  std::vector<Segment> pieces;
  std::uint64_t size = 0;
  for (const auto& file : *files) {
    auto piece = read_data_file(file, Text::bytes_max - size);
    if (!piece && size > 0) {
      return piece.error().within("after the " + std::to_string(size) + " bytes of the files before it");
    }
    if (!piece) return piece.error();
    size += piece->size();
    pieces.push_back(std::move(*piece));
  }
  return Text(std::move(pieces));
}

}  // namespace weir::training
