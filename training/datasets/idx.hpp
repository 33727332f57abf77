#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::training {

/// An array of bytes in the IDX format of the MNIST family:
///   u16 zero | u8 element type (8: unsigned byte) | u8 dimensions | u32 extent[dimensions], big-endian |
///   elements.
struct Idx {
  std::vector<std::uint32_t> extents;
  std::vector<std::uint8_t> elements;
};

/// Fills the front of a buffer with the next bytes and returns how many; fewer than asked for only at the end.
using ByteSource = std::function<Result<std::size_t>(std::span<std::uint8_t>)>;

/// Says whether an array of these extents is wanted, before any of its elements is read.
using ExtentsCheck = std::function<Result<void>(std::span<const std::uint32_t>)>;

/// Reads the header of an array of `dimensions` dimensions, and nothing behind it. Fails with: malformed (other type or
/// dimensions, more than 4 GiB, too short), and with what the source fails with.
Result<std::vector<std::uint32_t>> read_idx_extents(const ByteSource& source, std::size_t dimensions);

/// Reads one array of `dimensions` dimensions. The bytes are untrusted: memory is allocated as they arrive, never
/// because a header asks for it, and only one byte more than the header announces is taken from the source. Fails with:
/// as above, malformed (too long), and with what `check` says of its extents.
Result<Idx> read_idx(const ByteSource& source, std::size_t dimensions, const ExtentsCheck& check = {});

/// The same for a gzip-compressed file (an uncompressed one is read as it is); errors name the file. Fail with:
/// not_found, io, and as above.
Result<std::vector<std::uint32_t>> read_idx_file_extents(const std::string& path, std::size_t dimensions);
Result<Idx> read_idx_file(const std::string& path, std::size_t dimensions, const ExtentsCheck& check = {});

}  // namespace weir::training
