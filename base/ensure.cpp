#include "base/ensure.hpp"

#include <cstdio>
#include <cstdlib>

namespace weir {

void ensure_failed(std::string_view what, std::source_location where) {
  std::fprintf(stderr, "weir: broken invariant at %s:%u (%s): %.*s\n", where.file_name(),
               static_cast<unsigned>(where.line()), where.function_name(), static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace weir
