#pragma once

#include <map>
#include <string>

namespace weir::protocol {

/// Amounts by resource name: "cpu" in cores, "gpu" in devices, "memory" in bytes, and whatever the site adds.
using Resources = std::map<std::string, double>;

}  // namespace weir::protocol
