#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "training/servers/served_mode.hpp"

namespace weir::training {

/// Synchronous SGD with backup workers (Chen et al. 2016): of N + `backup_workers` workers, the first N gradients of a
/// version of the model make the next one, as their mean; those of the others come too late and are dropped, and their
/// workers go on from the new version. resources.workers counts all of them.
///
/// With several servers the first one decides whose gradients count, so that all apply the same ones.
class Backup final : public servers::ServedMode {
 public:
  static constexpr std::string_view type_name = "backup";
  static constexpr std::string_view summary =
      "every step applies the mean of the first gradients; late ones are dropped";

  struct Options {
    std::int64_t servers = 1;
    std::int64_t backup_workers = 1;
  };
  static protocol::Params<Options> params();
  explicit Backup(Options options) : options_(options) {}

  Result<std::uint32_t> gradients_per_step(std::uint32_t workers) const override;
  std::unique_ptr<servers::PushRule> rule(const servers::RuleSetting& setting) const override;

 private:
  const Options options_;
};

}  // namespace weir::training
