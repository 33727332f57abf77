#include "base/result.hpp"

namespace weir {

std::string Error::message() const {
  if (context.empty()) return code.message();
  return context + " (" + code.message() + ")";
}

void throw_exception_from_error(const Error& error, const boost::source_location&) { throw BadResult(error); }

}  // namespace weir
