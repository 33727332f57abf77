#include "api/connection_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace weir::api {
namespace {

class ConnectionTableTest : public ::testing::Test {
 protected:
  struct Member final : TableMember {
    bool dropped = false;
    bool finished = false;
    void drop() override { dropped = true; }
    void end_soon() override { finished = true; }
  };

  void enter(const std::string& name, const std::string& address) {
    members_[name] = std::make_shared<Member>();
    ids_[name] = table_.enter(members_[name], address);
  }
  std::vector<std::string> dropped() const {
    std::vector<std::string> names;
    for (const auto& [name, member] : members_)
      if (member->dropped) names.push_back(name);
    return names;
  }
  using Names = std::vector<std::string>;

  ConnectionTable table_{4, 2};
  std::map<std::string, std::shared_ptr<Member>> members_;
  std::map<std::string, ConnectionTable::Id> ids_;
};

TEST_F(ConnectionTableTest, TheAddressWithMostStrangersLosesTheOneWaitedForLongest) {
  enter("quiet", "10.0.0.1");
  enter("a", "10.0.0.2");
  enter("b", "10.0.0.2");
  enter("c", "10.0.0.2");
  EXPECT_EQ(dropped(), Names{});
  table_.waits(ids_["a"]);  // it has had an answer meanwhile
  enter("d", "10.0.0.3");
  EXPECT_EQ(dropped(), Names{"b"});
  enter("e", "10.0.0.2");
  EXPECT_EQ(dropped(), (Names{"b", "c"}));
}

TEST_F(ConnectionTableTest, AmongAddressesWithAsManyTheOneWaitedForLongest) {
  for (const char* name : {"4", "1", "3", "2"}) enter(name, std::string("10.0.0.") + name);
  enter("5", "10.0.0.5");
  EXPECT_EQ(dropped(), Names{"4"});
}

TEST_F(ConnectionTableTest, WhoseAnswerIsUnderWayGoesLast) {
  for (const char* name : {"a", "b", "c", "d"}) enter(name, "10.0.0.1");
  table_.works(ids_["a"]);
  enter("e", "10.0.0.1");
  EXPECT_EQ(dropped(), Names{"b"});
  for (const char* name : {"c", "d", "e"}) table_.works(ids_[name]);
  enter("f", "10.0.0.1");
  EXPECT_EQ(dropped().size(), 2u) << "there is no other place";
}

TEST_F(ConnectionTableTest, ClientsHaveTheirOwnPlaces) {
  for (const char* name : {"a", "b", "c"}) enter(name, "10.0.0.1");
  EXPECT_TRUE(table_.admit(ids_["a"]));
  EXPECT_TRUE(table_.admit(ids_["b"]));
  EXPECT_FALSE(table_.admit(ids_["c"]));
  for (const char* name : {"d", "e", "f", "g", "h", "i"}) enter(name, "10.0.0.1");
  EXPECT_EQ(dropped(), (Names{"c", "d", "e"}));
  table_.leave(ids_["a"]);
  EXPECT_TRUE(table_.admit(ids_["f"]));
}

TEST_F(ConnectionTableTest, WhoLeavesGivesItsPlaceBack) {
  for (const char* name : {"a", "b", "c", "d"}) enter(name, "10.0.0.1");
  EXPECT_TRUE(table_.crowded());
  for (const char* name : {"a", "b"}) table_.leave(ids_[name]);
  EXPECT_FALSE(table_.crowded());
  enter("e", "10.0.0.1");
  EXPECT_EQ(dropped(), Names{});
}

TEST_F(ConnectionTableTest, FinishingReachesEveryoneAndLatecomers) {
  enter("stranger", "10.0.0.1");
  enter("client", "10.0.0.1");
  ASSERT_TRUE(table_.admit(ids_["client"]));
  table_.end_all_soon();
  EXPECT_TRUE(members_["stranger"]->finished && members_["client"]->finished);
  EXPECT_EQ(dropped(), Names{});
  enter("late", "10.0.0.1");
  EXPECT_EQ(dropped(), Names{"late"});
  table_.drop_all();
  EXPECT_EQ(dropped(), (Names{"client", "late", "stranger"}));
}

TEST_F(ConnectionTableTest, DroppingWithoutStrangersSaysSo) {
  EXPECT_FALSE(table_.drop_stranger());
  enter("a", "10.0.0.1");
  EXPECT_TRUE(table_.drop_stranger());
  EXPECT_EQ(dropped(), Names{"a"});
}

}  // namespace
}  // namespace weir::api
