#include "training/thrown.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <sstream>

#include "base/errc.hpp"

namespace weir::training {

std::string reason_of(const std::exception& thrown) {
  constexpr std::size_t length_max = 300;
  const auto* of_torch = dynamic_cast<const c10::Error*>(&thrown);
  const std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : thrown.what();
  const bool has_run = text.find("Traceback of TorchScript") != std::string::npos;
  std::string reason;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && (has_run || reason.empty());) {
    if (!line.empty()) reason = line;
  }
  reason.resize(std::min(reason.size(), length_max));
  std::ranges::replace_if(
      reason, [](char c) { return c < ' ' || c > '~'; }, '?');
  return reason;
}

Error error_of(const std::exception& thrown) {
  const bool of_memory = dynamic_cast<const c10::OutOfMemoryError*>(&thrown) != nullptr;
  return {of_memory ? Errc::exhausted : Errc::internal, reason_of(thrown)};
}

}  // namespace weir::training
