#pragma once

#include <cstdint>
#include <utility>

#include "compressors/per_tensor.hpp"

namespace weir::compressors {

/// What has been begun of tensors (Compressor::begin): each is used once, in the round and pass that it was begun for.
template <class T>
class Begun {
 public:
  void put(const Round& round, T begun) { kept_.of(round) = {round.step, round.pass, std::move(begun)}; }

  /// A default T if nothing was begun.
  T take(const Round& round) {
    Kept* const kept = kept_.find(round);
    if (kept == nullptr) return {};
    T begun = std::exchange(kept->begun, {});
    return kept->step == round.step && kept->pass == round.pass ? std::move(begun) : T();
  }

 private:
  struct Kept {
    std::uint64_t step = 0;
    std::uint32_t pass = 0;
    T begun = {};
  };
  PerTensor<Kept> kept_;
};

}  // namespace weir::compressors
