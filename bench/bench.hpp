#pragma once

#include <string>

namespace weir::bench {

/// The options of `weir bench NAME`.
struct Options {
  bool json = false;   ///< JSON lines on stdout instead of a table
  std::string filter;  ///< a regular expression over row names (filter_problem); empty: all
};

/// Why `filter` is no regular expression; empty if it is one. For the check of the option `--filter`.
std::string filter_problem(const std::string& filter);

}  // namespace weir::bench
