#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "training/servers/served_mode.hpp"

namespace weir::training {

/// Stale synchronous parallel (Ho et al., NIPS 2013): a server applies each push when it comes, but a worker that has
/// made c pushes is answered only when the slowest has made at least c - `staleness`. With 0, nobody begins a batch
/// before all have pushed the last one. Each server sees to it by itself: a worker goes on when all have answered.
class Ssp final : public servers::ServedMode {
 public:
  static constexpr std::string_view type_name = "ssp";
  static constexpr std::string_view summary = "as async, but no worker is more than so many gradients ahead";

  struct Options {
    std::int64_t servers = 1;
    std::int64_t staleness = 3;
  };
  static protocol::Params<Options> params();
  explicit Ssp(Options options) : options_(options) {}

  std::unique_ptr<servers::PushRule> rule(const servers::RuleSetting& setting) const override;

 private:
  const Options options_;
};

}  // namespace weir::training
