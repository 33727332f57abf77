#include <gtest/gtest.h>

#include <set>

#include "support.hpp"

namespace weir::compressors::test {
namespace {

TEST(RecordedGradients, AreOfBothModelsOfSeveralKindsAndFinite) {
  std::set<std::string> names;
  std::set<std::int64_t> dimensions;
  for (const auto& [name, tensor] : recorded_gradients()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    dimensions.insert(tensor.dim());
    EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
    EXPECT_GT(squared_norm(tensor), 0) << name;
  }
  EXPECT_EQ(dimensions, (std::set<std::int64_t>{1, 2, 4}));
  for (const auto* name : {"lenet.step5.conv2.weight", "lenet.step300.fc2.weight", "resnet.step150.fc.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

}  // namespace
}  // namespace weir::compressors::test
