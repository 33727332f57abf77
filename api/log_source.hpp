#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/http.hpp"
#include "cluster/head.hpp"

namespace weir::api {

/// A worker's output from byte `offset` to `stop` as a body, byte for byte, fetched piece by piece.
std::unique_ptr<BodySource> log_source(cluster::Head& head, std::string job, std::uint32_t worker, std::uint64_t offset,
                                       std::uint64_t stop);

}  // namespace weir::api
