#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::training {

/// The contents of a regular file, mapped: nothing is read or allocated before it is used, and workers of one host
/// share it. The file must not be shortened meanwhile: touching a page that is gone ends the process. Errors name the
/// file. Fails with: not_found, io, malformed (no regular file, or longer than `bytes_max`).
Result<Segment> map_file(const std::string& path, std::uint64_t bytes_max);

}  // namespace weir::training
