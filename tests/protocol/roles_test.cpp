#include "protocol/roles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errc.hpp"
#include "protocol/job_spec.hpp"
#include "tests/protocol/test_catalog.hpp"

namespace weir::protocol {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

json served(const json& more = json::object(), const std::string& mode = "served") {
  json spec = {{"model", {{"name", "lenet"}}},
               {"dataset", {{"name", "fashion-mnist"}}},
               {"training", {{"mode", mode}}},
               {"resources", {{"workers", 3}}}};
  spec.merge_patch(more);
  return spec;
}

TEST(Roles, HaveNames) {
  for (const Role role : all_roles) EXPECT_EQ(role_of(to_string(role)), role);
  for (const char* name : {"", "Worker", "servers", "worker "}) EXPECT_FALSE(role_of(name)) << name;
  EXPECT_EQ(last_value(Role{}), all_roles.back());
}

TEST(Roles, RanksAreCountedWorkersFirst) {
  const RoleGroups groups{{Role::worker, 3, {}}, {Role::server, 2, {}}, {Role::state_server, 1, {}}};
  EXPECT_EQ(members_of(groups), 6u);
  EXPECT_EQ(count_of(groups, Role::server), 2u);
  EXPECT_EQ(count_of({}, Role::server), 0u);
  const auto last_worker = role_of_rank(groups, 2);
  EXPECT_EQ(process_name(last_worker.role, last_worker.number), "worker 2");
  const auto second_server = role_of_rank(groups, 4);
  EXPECT_EQ(process_name(second_server.role, second_server.number), "server 1");
  const auto last = role_of_rank(groups, 5);
  EXPECT_EQ(process_name(last.role, last.number), "the state server");
}

TEST(Roles, TheModesParameterSaysHowManyServers) {
  json spec = served({{"training", {{"params", {{"servers", 2}}}}}});
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  const auto typed = parse_job_spec(spec).value();
  EXPECT_THAT(typed.resources.groups,
              ElementsAre(RoleGroup{Role::worker, 3, {{"cpu", 1}}}, RoleGroup{Role::server, 2, {{"cpu", 1}}}));
  json again = spec;
  EXPECT_THAT(normalize_job_spec(again, test_catalog()), IsEmpty()) << "a normalized spec is one";
  EXPECT_EQ(again, spec);
}

TEST(Roles, OnlyProcessesThatTheModeHasAreGivenSomethingAndNoGpus) {
  const auto problems = [](const json& resources, const char* mode) {
    json spec = served({{"resources", resources}}, mode);
    std::vector<std::string> pointers;
    for (const auto& problem : normalize_job_spec(spec, test_catalog())) pointers.push_back(problem.pointer);
    return pointers;
  };
  EXPECT_THAT(problems({{"per_server", {{"cpu", 2}}}, {"per_state_server", {{"cpu", 1}}}}, "sync"),
              ElementsAre("/resources/per_server", "/resources/per_state_server"));
  EXPECT_THAT(problems({{"per_server", {{"cpu", 1}}}}, "sync"), IsEmpty()) << "the default";
  EXPECT_THAT(problems({{"per_server", {{"gpu", 1}}}, {"per_state_server", {{"gpu", 0.5}}}}, "watched"),
              ElementsAre("/resources/per_server/gpu", "/resources/per_state_server/gpu"));
}

TEST(Roles, AModeCanHaveAFixedNumberAndAStateServerThatAsksForNothing) {
  json spec = served({{"resources", {{"per_server", {{"memory", 1e9}}}}}}, "watched");
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  EXPECT_THAT(
      parse_job_spec(spec)->resources.groups,
      ElementsAre(RoleGroup{Role::worker, 3, {{"cpu", 1}}}, RoleGroup{Role::server, 1, {{"cpu", 1}, {"memory", 1e9}}},
                  RoleGroup{Role::state_server, 1, {}}));
}

TEST(Roles, NoServersAreNoGroup) {
  json spec = served({{"training", {{"params", {{"servers", 0}}}}}});
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  EXPECT_THAT(parse_job_spec(spec)->resources.groups, ElementsAre(RoleGroup{Role::worker, 3, {{"cpu", 1}}}));
}

TEST(Roles, TheParametersOwnLimitsHold) {
  for (const json& servers : {json(65), json(-1), json("two"), json(1.5), json(1e300), json(nullptr)}) {
    json spec = served();
    spec["training"]["params"] = {{"servers", servers}};
    EXPECT_THAT(normalize_job_spec(spec, test_catalog()),
                ElementsAre(Field(&Problem::pointer, "/training/params/servers")))
        << servers;
  }
}

TEST(Roles, GroupsAreNotForTheClientToChoose) {
  json spec = served();
  spec["resources"]["groups"] = {{{"role", "server"}, {"count", 4000}, {"each", {{"cpu", 0}}}}};
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  EXPECT_THAT(parse_job_spec(spec)->resources.groups,
              ElementsAre(RoleGroup{Role::worker, 3, {{"cpu", 1}}}, RoleGroup{Role::server, 1, {{"cpu", 1}}}));
  spec["resources"]["workers"] = 2;
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), testing::Not(IsEmpty())) << "min_workers says 3";
  spec["resources"]["min_workers"] = nullptr;
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  EXPECT_EQ(count_of(parse_job_spec(spec)->resources.groups, Role::worker), 2u);
  for (const json& hostile : {json(1), json::array({1}), json::parse(R"([{"role": "king", "count": 1, "each": {}}])"),
                              json::parse(R"([{"role": "worker", "count": -1, "each": {}}])"),
                              json::parse(R"([{"role": "worker", "count": 3, "each": {"cpu": -1}}])"),
                              json::parse(R"([{"role": "worker"}])")}) {
    spec = served();
    spec["resources"]["groups"] = hostile;
    EXPECT_FALSE(normalize_job_spec(spec, test_catalog()).empty()) << hostile;
    spec = served();
    ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
    spec["resources"]["groups"] = hostile;
    EXPECT_EQ(parse_job_spec(spec).error().code, Errc::malformed) << hostile;
  }
}

TEST(Roles, ACatalogThatMakesNoSenseIsRefusedWithASentence) {
  const json spec = [] {
    json one = served();
    EXPECT_THAT(normalize_job_spec(one, test_catalog()), IsEmpty());
    return one;
  }();
  for (const char* roles :
       {R"({"king": {"count": 1}})", R"({"worker": {"count": 1}})", R"({"server": 1})", R"({"server": {}})",
        R"({"server": {"count": -1}})", R"({"server": {"count": 1.5}})", R"({"server": {"count": "no_such"}})",
        R"({"server": {"count": 5000}})", R"({"server": {"count": null}})", R"([1])", R"("server")",
        R"({"server": {"count": 4096}})"}) {
    const auto groups = groups_of(spec, {{"name", "odd"}, {"roles", json::parse(roles)}});
    ASSERT_FALSE(groups) << roles;
    EXPECT_EQ(groups.error().code, Errc::invalid_argument) << roles;
    EXPECT_FALSE(groups.error().context.empty());
  }
}

TEST(Roles, ASpecFromBeforeThereWereRolesHasWorkersOnly) {
  json spec = served(json::object(), "sync");
  ASSERT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
  for (const char* key : {"groups", "per_server", "per_state_server"}) spec["resources"].erase(key);
  EXPECT_THAT(read_groups(spec).value(), ElementsAre(RoleGroup{Role::worker, 3, {{"cpu", 1}}}));
  EXPECT_THAT(normalize_job_spec(spec, test_catalog()), IsEmpty());
}

TEST(Roles, ACheckpointBelongsToItsNumbersOfWorkersAndServers) {
  const RoleGroups two{{Role::worker, 2, {}}, {Role::server, 1, {}}};
  const RoleGroups three{{Role::worker, 2, {}}, {Role::server, 3, {{"cpu", 2}}}};
  RoleGroups bigger = two;
  bigger[1].each = {{"cpu", 9}};
  EXPECT_FALSE(groups_differ(two, bigger));
  EXPECT_EQ(groups_differ(two, three),
            "the checkpoint is of 2 workers and 1 server, and the job has 2 workers and 3 servers");
}

TEST(Roles, AreStatedByAModeAsTheCatalogHasThem) {
  constexpr std::array needs{RoleNeed{Role::server, "servers"}, RoleNeed{.role = Role::state_server, .count = 1}};
  EXPECT_EQ(to_json(std::span<const RoleNeed>(needs)),
            json::parse(R"({"server": {"count": "servers"}, "state_server": {"count": 1}})"));
}

}  // namespace
}  // namespace weir::protocol
