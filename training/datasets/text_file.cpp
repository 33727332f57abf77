#include "training/datasets/text_file.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/xxh3.hpp"
#include "training/datasets/data_file.hpp"

namespace weir::training {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t files_max = 4096;
constexpr std::uint64_t chunk_bytes = std::uint64_t{1} << 20;

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

void note(BytesView bytes, Text::Occurring& occurring) {
  for (const auto byte : bytes) occurring[std::to_integer<std::size_t>(byte)] = true;
}

/// Notes what occurs in a part of a file of which nothing is kept.
Result<void> look_at(const DataFile& file, std::uint64_t begin, std::uint64_t end, Text::Occurring& occurring) {
  Bytes memory(std::min(end - begin, chunk_bytes), boost::container::default_init);
  while (begin < end) {
    const auto chunk = std::span(memory).first(std::min(end - begin, chunk_bytes));
    if (auto done = file.read(begin, chunk); !done) return done.error();
    note(chunk, occurring);
    begin += chunk.size();
  }
  return {};
}

/// Reads the first `bytes` of a file and keeps those from `begin` to `end`.
Result<Segment> read_piece(const TextFiles::File& about, std::uint64_t begin, std::uint64_t end,
                           Text::Occurring& occurring) {
  const auto file = DataFile::open(about.path);
  if (!file) return file.error();
  if (auto done = look_at(*file, 0, begin, occurring); !done) return done.error().within(about.path);
  auto kept = file->read(begin, end - begin);
  if (!kept) return kept.error().within(about.path);
  note(kept->bytes(), occurring);
  if (auto done = look_at(*file, end, about.bytes, occurring); !done) return done.error().within(about.path);
  return kept;
}

}  // namespace

Text::Text(std::vector<Segment> pieces, const Occurring& occurring) {
  for (std::size_t byte = 0; byte < occurring.size(); ++byte) {
    if (occurring[byte]) token_[byte] = static_cast<std::uint8_t>(vocabulary_++);
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

std::uint64_t Text::hash() const {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  ensure(state != nullptr, "memory for the state of a hash");
  XXH3_64bits_reset(state.get());
  for (const Segment& piece : pieces_) XXH3_64bits_update(state.get(), piece.bytes().data(), piece.size());
  return XXH3_64bits_withSeed(token_.data(), token_.size(), XXH3_64bits_digest(state.get()));
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

Result<TextFiles> find_text(const std::string& path) {
  const auto paths = files_of(path);
  if (!paths) return paths.error();
  TextFiles text;
  for (const auto& file : *paths) {
    const auto opened = DataFile::open(file);
    if (!opened) return opened.error();
    if (opened->size() > TextFiles::bytes_max - text.bytes) {
      const std::string before =
          text.bytes == 0 ? "" : " after the " + std::to_string(text.bytes) + " bytes of the files before it";
      return Error{Errc::malformed, file + " has " + std::to_string(opened->size()) + " bytes" + before + "; at most " +
                                        std::to_string(TextFiles::bytes_max) + " are read"};
    }
    text.files.push_back({file, opened->size()});
    text.bytes += opened->size();
  }
  return text;
}

Result<Text> read_text(const TextFiles& text, std::uint64_t begin, std::uint64_t end) {
  ensure(begin <= end && end <= text.bytes, "a part of the text");
  std::vector<Segment> pieces;
  Text::Occurring occurring{};
  std::uint64_t start = 0;  // of the file in the text
  for (const auto& file : text.files) {
    const auto within_file = [&](std::uint64_t place) { return std::clamp(place, start, start + file.bytes) - start; };
    auto piece = read_piece(file, within_file(begin), within_file(end), occurring);
    if (!piece) return piece.error();
    pieces.push_back(std::move(*piece));
    start += file.bytes;
  }
  return Text(std::move(pieces), occurring);
}

}  // namespace weir::training
