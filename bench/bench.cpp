#include "bench/bench.hpp"

#include <regex>

namespace weir::bench {

std::string filter_problem(const std::string& filter) {
  try {
    const std::regex parsed(filter);
    return "";
  } catch (const std::regex_error& error) {
    return "'" + filter + "' is no regular expression: " + error.what();
  }
}

}  // namespace weir::bench
