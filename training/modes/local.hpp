#pragma once

#include <cstdint>
#include <string_view>

#include "training/modes/mode.hpp"

namespace weir::training {

/// Training on one rank, without an exchange: what the other modes are compared with. The replica has joined no group.
class Local final : public Mode {
 public:
  static constexpr std::string_view type_name = "local";
  static constexpr std::string_view summary = "one worker trains by itself and exchanges nothing";
  static constexpr Exchanged type_exchanges = Exchanged::nothing;

  struct Options {
    std::int64_t accumulate = 1;
  };
  static protocol::Params<Options> params();
  explicit Local(Options options) : options_(options) {}

  Result<bool> train(Replica& replica, Progress& progress) override;
  Exchanged exchanges() const override { return type_exchanges; }

 private:
  const Options options_;
};

}  // namespace weir::training
