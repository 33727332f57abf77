#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace weir::training {

/// A regular file whose contents are read into memory, as far as somebody asks for them: whatever happens to the file
/// afterwards, nothing here changes. (A mapped file that somebody shortens ends the process that touches it.)
class DataFile {
 public:
  /// Never waits. Errors name the file. Fails with: not_found, io, malformed (no regular file).
  static Result<DataFile> open(const std::string& path);

  const Descriptor& descriptor() const { return descriptor_; }
  /// How many bytes it had when it was opened.
  std::uint64_t size() const { return size_; }

  /// Fills `into` with the bytes from `offset` on. Fails with: io, malformed (they do not all exist: it was shortened).
  Result<void> read(std::uint64_t offset, std::span<std::byte> into) const;
  /// `count` of them in memory of their own. Fails with: as above, exhausted (no memory for them).
  Result<Segment> read(std::uint64_t offset, std::uint64_t count) const;

 private:
  DataFile(Descriptor descriptor, std::uint64_t size) : descriptor_(std::move(descriptor)), size_(size) {}

  Descriptor descriptor_;
  std::uint64_t size_ = 0;
};

/// The contents of a whole file. Errors name it. Fails with: as DataFile, malformed (longer than `bytes_max`).
Result<Segment> read_data_file(const std::string& path, std::uint64_t bytes_max);

}  // namespace weir::training
