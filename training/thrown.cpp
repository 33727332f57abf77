#include "training/thrown.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string_view>

#include "base/errc.hpp"
#include "training/device.hpp"

namespace weir::training {
namespace {

/// How much memory LibTorch has not got, in its words ("2.00 GiB"); empty if it does not say.
std::string memory_wanted(const std::string& said) {
  constexpr std::string_view before = "ried to allocate ";
  const auto at = said.find(before);
  if (at == std::string::npos) return {};
  std::istringstream words(said.substr(at + before.size()));
  std::string number;
  std::string unit;
  words >> number >> unit;
  while (unit.ends_with('.') || unit.ends_with(',')) unit.pop_back();
  return unit.empty() ? std::string() : number + " " + unit;
}

/// In LibTorch's unit.
std::string gibibytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", static_cast<double>(bytes) / (1 << 30));
  return text;
}

}  // namespace

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
  if (of_memory) return too_little_memory(own_gpu(), "this job", thrown, "a smaller training.batch_size");
  return {Errc::internal, reason_of(thrown)};
}

Error too_little_memory(const OwnGpu& gpu, const std::string& what, const std::exception& thrown,
                        const std::string& instead) {
  std::string said = reason_of(thrown);
  if (said.ends_with('.')) said.pop_back();
  const std::string wanted = memory_wanted(said);
  std::string text = gpu.name + " has too little memory for " + what + ": ";
  text += wanted.empty() ? said : "it was asked for " + wanted;
  if (gpu.total_bytes && gpu.free_bytes) {
    text += ", and " + gibibytes(*gpu.free_bytes) + " of its " + gibibytes(*gpu.total_bytes) + " GiB are free";
  } else if (gpu.total_bytes) {
    text += ", and has " + gibibytes(*gpu.total_bytes) + " GiB";
  }
  text += ". Try " + (instead.empty() ? "" : instead + ", ") +
          "a GPU with more memory or, where workers share this one, resources.per_worker.gpu 1";
  return {Errc::exhausted, text};
}

}  // namespace weir::training
