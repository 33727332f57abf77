#include "bench/layers.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace weir::bench {
namespace {

std::int64_t entries_of(const protocol::ParameterShape& parameter) {
  std::int64_t entries = 1;
  for (const auto extent : parameter.extents) entries *= extent;
  return entries;
}

/// As torchvision's models and weir's `mlp` have.
TEST(Layers, HaveAsManyParametersAsTheNetworks) {
  const std::map<std::string, std::pair<std::int64_t, std::size_t>> known{
      {"mlp", {10'672'090, 4}}, {"resnet50", {25'557'032, 161}}, {"vgg16", {138'357'544, 32}}};
  ASSERT_EQ(layer_lists().size(), known.size());
  for (const LayerList& model : layer_lists()) {
    std::int64_t entries = 0;
    std::set<std::string> names;
    for (const auto& parameter : model.parameters) {
      entries += entries_of(parameter);
      names.insert(parameter.name);
    }
    EXPECT_EQ(entries, known.at(model.name).first) << model.name;
    EXPECT_EQ(model.parameters.size(), known.at(model.name).second) << model.name;
    EXPECT_EQ(names.size(), model.parameters.size()) << model.name;
  }
}

}  // namespace
}  // namespace weir::bench
