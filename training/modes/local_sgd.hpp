#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "training/modes/mode.hpp"

namespace weir::training {

/// Local SGD (Stich, ICLR 2019): every rank makes `period` optimizer steps by itself, with an optimizer of its own;
/// then the ranks average by how much their models differ from the one that they had last in common, and go on from
/// that one plus the mean difference. With the lossless compressor this is the mean of the models.
///
/// Before `post_local_epoch` they exchange after every step (post-local SGD, Lin et al., ICLR 2020). With momentum that
/// is what sync does, up to rounding: the mean of the ranks' momenta is the momentum of the mean gradient.
///
/// The model of the training is the common one: checkpoints and evaluations wait for the next exchange.
class LocalSgd final : public Mode {
 public:
  static constexpr std::string_view type_name = "local_sgd";
  static constexpr std::string_view summary = "workers take steps by themselves and average their models now and then";

  static constexpr Exchanged type_exchanges = Exchanged::differences;

  struct Options {
    std::int64_t period = 8;
    double post_local_epoch = 0;
  };
  static protocol::Params<Options> params();
  explicit LocalSgd(Options options) : options_(options) {}

  Result<bool> train(Replica& replica, Progress& progress) override;
  ModeState save() const override;
  Result<void> restore(Replica& replica, std::span<const NamedTensor> common,
                       std::span<const NamedTensor> own) override;
  Exchanged exchanges() const override { return type_exchanges; }

 private:
  bool exchanges_after(const Replica& replica, std::uint64_t steps) const;
  std::uint64_t first_local_step(const Replica& replica) const;

  const Options options_;
  std::uint64_t rounds_ = 0;  ///< exchanges of the whole training so far, however long its periods were
};

}  // namespace weir::training
