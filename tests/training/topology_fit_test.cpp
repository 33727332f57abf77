#include "training/exchange/topology_fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compressors/catalog.hpp"

namespace weir::training {
namespace {

using ::testing::HasSubstr;

std::string misfit(const std::string& topology, const std::string& compressor) {
  const auto made = compressors::builtin().make_compressor(compressor, nullptr).value();
  return topology_misfit(*collectives::find_topology(topology), *made).value_or("");
}

TEST(TopologyFit, SumsGoOverEveryTopology) {
  for (const auto& topology : collectives::all_topologies()) {
    for (const char* summed : {"none", "fp16", "powersgd"}) {
      EXPECT_EQ(misfit(std::string(topology.name), summed), "") << summed << " over " << topology.name;
    }
  }
}

TEST(TopologyFit, AllRanksTakeEveryPayload) {
  for (const char* gathered : {"topk", "qsgd", "signsgd", "casq"}) EXPECT_EQ(misfit("ring", gathered), "") << gathered;
}

TEST(TopologyFit, OwnersEncodeTheMeanAgain) {
  for (const char* topology : {"two_hop", "parameter_server"}) {
    for (const char* fitting : {"topk", "qsgd"}) EXPECT_EQ(misfit(topology, fitting), "") << fitting;
    EXPECT_THAT(misfit(topology, "casq"), HasSubstr("the mean of its payloads cannot be encoded like them"));
  }
}

TEST(TopologyFit, OwnersOfRegionsAddUpChosenEntries) {
  EXPECT_EQ(misfit("split_gather", "topk"), "");
  for (const char* all_entries : {"qsgd", "casq"}) {
    EXPECT_THAT(misfit("split_gather", all_entries), HasSubstr("what this one sends is neither")) << all_entries;
  }
}

TEST(TopologyFit, PartnersEncodeSums) {
  EXPECT_EQ(misfit("multi_hop", "qsgd"), "");
  EXPECT_THAT(misfit("multi_hop", "topk"), HasSubstr("it sends some entries"));
}

}  // namespace
}  // namespace weir::training
