#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.hpp"
#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace weir::training {

/// Opens a regular file for reading, and never waits. Errors name the file. Fails with: not_found, io, malformed (no
/// regular file).
Result<Descriptor> open_data_file(const std::string& path);

/// The contents of a regular file, read into memory: whatever happens to the file afterwards, nothing here changes. (A
/// mapped file that somebody shortens ends the process that touches it.) Errors name the file. Fails with: not_found,
/// io, malformed (no regular file, longer than `bytes_max`, or shortened while it was read), exhausted (no memory for
/// it).
Result<Segment> read_data_file(const std::string& path, std::uint64_t bytes_max);

}  // namespace weir::training
