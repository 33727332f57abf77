#pragma once

#include <map>
#include <string>

#include "base/result.hpp"
#include "protocol/resources.hpp"

namespace weir::cli {

/// Parses "cpu=4,gpu=1,memory=8GiB,fpga=2": amounts by name. Units kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB,
/// TiB.
/// Fails with: invalid_argument.
Result<protocol::Resources> parse_resources(const std::string& text);

/// Parses "zone=a,disk=ssd". Fails with: invalid_argument.
Result<std::map<std::string, std::string>> parse_labels(const std::string& text);

}  // namespace weir::cli
