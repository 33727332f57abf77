#include "training/random_state.hpp"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <mutex>
#include <string>

#include "base/errc.hpp"
#include "base/philox.hpp"

namespace weir::training {

void seed_random_state(std::uint64_t seed, std::uint32_t rank) {
  const auto words = Philox(seed).at(0, rank, 0);
  at::manual_seed(std::uint64_t{words[1]} << 32 | words[0]);
}

at::Tensor random_state(at::Device device) {
  auto generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

Result<void> set_random_state(at::Device device, const at::Tensor& state) {
  auto generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  try {
    generator.set_state(state);
  } catch (const c10::Error& error) {
    return Error{Errc::malformed, std::string("checkpoint: random generator: ") + error.what_without_backtrace()};
  }
  return {};
}

}  // namespace weir::training
