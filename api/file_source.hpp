#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <filesystem>

#include "api/http.hpp"
#include "base/result.hpp"

namespace weir::api {

/// Opens a regular file as a body, which is read piece by piece on `blocking`, so that it is never in memory as a whole
/// and no connection waits for the disk. The file may be unlinked meanwhile. Fails with: not_found, io.
Result<Reply::Streamed> open_file(const std::filesystem::path& path, net::any_io_executor blocking);

}  // namespace weir::api
