#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "support.hpp"

namespace weir::compressors::test {

/// Each test runs for one compressor, with all of its cases.
class CompressorContract : public ::testing::TestWithParam<std::string> {
 protected:
  void for_each_case(const std::function<void()>& check) {
    for (const Case& it : cases()) {
      if (it.name != GetParam()) continue;
      SCOPED_TRACE(::testing::PrintToString(it));
      case_ = it;
      compressor_ = it.make();
      check();
    }
  }
  /// Encodes a round. A stateful compressor is made anew before, so that it has no state from earlier rounds.
  Bytes encode(const at::Tensor& x) { return encode(x, round_); }
  Bytes encode(const at::Tensor& x, const Round& round) {
    if (compressor_->traits().stateful) compressor_ = case_.make();
    return encoded(*compressor_, x, round);
  }
  at::Tensor round_trip(const at::Tensor& x, const Round& round) {
    const Bytes payload = encode(x, round);
    return decoded(*compressor_, payload, x, round);
  }
  Bytes encode_fresh(const at::Tensor& x) const { return encoded(*case_.make(), x, round_); }

  const Round round_ = round_at(3);
  Case case_;
  std::unique_ptr<Compressor> compressor_;
};

inline std::string name_of(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

}  // namespace weir::compressors::test
