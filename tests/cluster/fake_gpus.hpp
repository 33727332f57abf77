#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/gpus.hpp"

namespace weir::cluster {

/// GPUs that a test makes vanish. Used from one thread.
class FakeGpuProbe final : public GpuProbe {
 public:
  explicit FakeGpuProbe(std::vector<protocol::Gpu> gpus) {
    for (auto& gpu : gpus) readings_.push_back({std::move(gpu), {.utilization = 0.5}});
  }

  Result<std::vector<Reading>> read() override {
    if (failure) return *failure;
    std::vector<Reading> there;
    std::ranges::copy_if(readings_, std::back_inserter(there),
                         [this](const Reading& one) { return !std::ranges::count(vanished, one.gpu.uuid); });
    return there;
  }

  std::vector<std::string> vanished;  ///< UUIDs
  std::optional<Error> failure;

 private:
  std::vector<Reading> readings_;
};

}  // namespace weir::cluster
