#include "protocol/parameter_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weir::protocol {
namespace {

using nlohmann::json;
using ::testing::IsEmpty;

const std::vector<std::string> names{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                     "fc.weight",    "fc.bias",    "head"};

std::vector<Problem> check(const std::vector<std::string>& patterns) {
  json groups = json::array();
  for (const auto& pattern : patterns) groups.push_back({{"parameters", pattern}});
  return check_groups({{"name", "sgd"}, {"groups", groups}}, names);
}

TEST(ParameterGroups, TakeNamesByPattern) {
  EXPECT_TRUE(group_takes("conv?.bias", "conv1.bias"));
  EXPECT_TRUE(group_takes("*.bias", "block.3.conv.bias"));
  EXPECT_TRUE(group_takes("conv[12].*", "conv2.weight"));
  EXPECT_FALSE(group_takes("conv[12].*", "conv3.weight"));
  EXPECT_FALSE(group_takes("conv1", "conv1.bias"));
}

TEST(ParameterGroups, AreRefusedIfTheyTakeNothing) {
  EXPECT_THAT(check({"conv1.*", "*.bias", "*"}), IsEmpty());
  EXPECT_THAT(check_groups({{"name", "sgd"}}, names), IsEmpty()) << "without groups";
  EXPECT_EQ(check({"conv1.*", "fc1.*"}),
            (std::vector<Problem>{{"/training/optimizer/groups/1/parameters",
                                   "no parameter of the model fits \"fc1.*\"; there are conv1.weight, conv1.bias, "
                                   "conv2.weight, conv2.bias, fc.weight, fc.bias, ..."}}));
  EXPECT_EQ(check({"*", "fc.*"}),
            (std::vector<Problem>{{"/training/optimizer/groups/1/parameters",
                                   "the groups before have taken all parameters that fit \"fc.*\""}}));
}

}  // namespace
}  // namespace weir::protocol
