#pragma once

#include <string>

namespace weir::bench {

/// The options of `weir bench NAME`.
struct Options {
  bool json = false;   ///< JSON lines on stdout instead of a table
  std::string filter;  ///< a regular expression over row names; empty: all
};

}  // namespace weir::bench
