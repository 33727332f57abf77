#include "compressors/memories/no_memory.hpp"

#include "compressors/params.hpp"

namespace weir::compressors {
namespace {

struct Options {};

const Params<Options>& params() {
  static const Params<Options> params("memory none");
  return params;
}

}  // namespace

nlohmann::json NoMemory::schema() { return params().schema(); }

Result<std::unique_ptr<Memory>> NoMemory::make(const nlohmann::json& given, const MemorySetting&) {
  const auto options = params().parse(given);
  if (!options) return options.error();
  return std::make_unique<NoMemory>();
}

}  // namespace weir::compressors
