#include "protocol/epochs.hpp"

#include <gtest/gtest.h>

namespace weir::protocol {
namespace {

TEST(Epochs, TenthsOfThemEndInTheirStepWhateverTheProductIsInBinary) {
  for (std::uint64_t steps_per_epoch = 1; steps_per_epoch <= 120; ++steps_per_epoch) {
    for (std::uint64_t tenths = 0; tenths <= 99; ++tenths) {
      const double epochs = static_cast<double>(tenths) / 10;
      EXPECT_EQ(steps_in(epochs, steps_per_epoch), (tenths * steps_per_epoch + 9) / 10)
          << epochs << " x " << steps_per_epoch;
    }
  }
}

TEST(Epochs, MayEndWithinAStep) {
  EXPECT_EQ(fractional_steps(1.1, 50), 55);
  EXPECT_DOUBLE_EQ(fractional_steps(0.25, 10), 2.5);
}

}  // namespace
}  // namespace weir::protocol
