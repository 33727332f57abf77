#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "compressors/compressor.hpp"

namespace weir::compressors {

/// What a compressor or memory keeps for each tensor of the model, by Round::tensor. A thread may ask for one tensor's
/// while another uses another's: what is kept stays where it is until clear() or replace(), which are called between
/// rounds, as all() is.
template <class T>
class PerTensor {
 public:
  /// Made when it is first asked for.
  T& of(const Round& round) {
    const std::lock_guard lock(mutex_);
    return kept_[round.tensor];
  }

  /// Null if it was never asked for by of().
  T* find(const Round& round) {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(round.tensor);
    return found == kept_.end() ? nullptr : &found->second;
  }
  const T* find(const Round& round) const {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(round.tensor);
    return found == kept_.end() ? nullptr : &found->second;
  }

  const std::map<std::uint32_t, T>& all() const { return kept_; }
  void replace(std::map<std::uint32_t, T> all) { kept_ = std::move(all); }
  void clear() { kept_.clear(); }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, T> kept_;
};

}  // namespace weir::compressors
