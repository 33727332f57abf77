#include "protocol/roles.hpp"

#include <algorithm>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"

namespace weir::protocol {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, all_roles.size()> names = {"worker", "server", "state_server"};
constexpr std::uint32_t members_max = 4096;  // of one job

Error bad(std::string what) { return {Errc::invalid_argument, std::move(what)}; }

/// How many processes a need of the catalog means, with the job's parameters.
Result<std::uint32_t> count_in(const json& need, const std::string& role, const json& params) {
  const json* count = need.is_object() && need.contains("count") ? &need.at("count") : nullptr;
  std::string from = "the catalog";
  if (count != nullptr && count->is_string()) {
    const auto name = count->get<std::string>();
    from = "/training/params/" + name;
    count = params.is_object() && params.contains(name) ? &params.at(name) : nullptr;
  }
  if (count == nullptr || !count->is_number_integer() || *count < 0 || *count > members_max) {
    return bad(from + " must say how many processes \"" + role + "\" the training mode has: 0 to " +
               std::to_string(members_max));
  }
  return static_cast<std::uint32_t>(count->get<std::uint64_t>());
}

const char* resources_key(Role role) {
  switch (role) {
    case Role::worker: return "per_worker";
    case Role::server: return "per_server";
    case Role::state_server: return "per_state_server";
  }
  return "";
}

Error no_groups(const std::string& why) { return {Errc::malformed, "the processes of a job spec: " + why}; }

Result<RoleGroup> read_group(const json& value) {
  const auto role = role_of(value.at("role").get<std::string>());
  if (!role) return no_groups("there is no role \"" + value.at("role").get<std::string>() + "\"");
  const json& count = value.at("count");
  if (!count.is_number_integer() || count < 1 || count > members_max) {
    return no_groups("as many as " + count.dump());
  }
  RoleGroup group{*role, count.get<std::uint32_t>(), value.at("each").get<Resources>()};
  for (const auto& [name, amount] : group.each) {
    if (!(amount >= 0)) return no_groups("a negative amount of " + name);
  }
  return group;
}

}  // namespace

std::string_view to_string(Role role) { return names.at(static_cast<std::size_t>(role)); }

std::optional<Role> role_of(std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return all_roles[static_cast<std::size_t>(found - names.begin())];
}

std::string process_name(Role role, std::uint32_t number) {
  if (role == Role::state_server) return "the state server";
  return std::string(to_string(role)) + " " + std::to_string(number);
}

std::string counted(Role role, std::uint64_t count) {
  const std::string_view noun = role == Role::state_server ? "state server" : to_string(role);
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string_view actor_type(Role role) {
  switch (role) {
    case Role::worker: return "trainer";
    case Role::server: return "parameter_server";
    case Role::state_server: return "state_server";
  }
  return "";
}

std::uint32_t members_of(const RoleGroups& groups) {
  std::uint32_t members = 0;
  for (const auto& group : groups) members += group.count;
  return members;
}

std::uint32_t count_of(const RoleGroups& groups, Role role) {
  const auto found = std::ranges::find(groups, role, &RoleGroup::role);
  return found == groups.end() ? 0 : found->count;
}

RankRole role_of_rank(const RoleGroups& groups, std::uint32_t rank) {
  for (const auto& group : groups) {
    if (rank < group.count) return {group.role, rank};
    rank -= group.count;
  }
  ensure(false, "a rank of the job");
  return {};
}

json to_json(std::span<const RoleNeed> needs) {
  json result = json::object();
  for (const auto& need : needs) {
    result[std::string(to_string(need.role))]["count"] =
        need.parameter.empty() ? json(need.count) : json(std::string(need.parameter));
  }
  return result;
}

Result<RoleGroups> groups_of(const json& spec, const json& mode) {
  const json& resources = spec.at("resources");
  const json needs = mode.value("roles", json::object());
  if (!needs.is_object()) return bad("the catalog's roles of the training mode are no object");
  for (const auto& [name, need] : needs.items()) {
    const auto role = role_of(name);
    if (role && role != Role::worker) continue;
    return bad("the training mode needs processes of the role \"" + name +
               "\", which this head does not know; install the same version of weir and weir-worker");
  }
  RoleGroups groups;
  for (const Role role : all_roles) {
    std::uint32_t count = resources.at("workers");
    const std::string name(to_string(role));
    if (role != Role::worker) {
      if (!needs.contains(name)) continue;
      const auto needed = count_in(needs.at(name), name, spec.at("training").at("params"));
      if (!needed) return needed.error();
      count = *needed;
    }
    if (count > 0) groups.push_back({role, count, resources.at(resources_key(role)).get<Resources>()});
  }
  if (const auto members = members_of(groups); members > members_max) {
    return bad("the job would have " + std::to_string(members) + " processes; at most " + std::to_string(members_max));
  }
  return groups;
}

json to_json(const RoleGroups& groups) {
  json list = json::array();
  for (const auto& group : groups) {
    list.push_back({{"role", to_string(group.role)}, {"count", group.count}, {"each", group.each}});
  }
  return list;
}

Result<RoleGroups> read_groups(const json& spec) {
  try {
    const json& resources = spec.at("resources");
    RoleGroups groups;
    if (const auto found = resources.find("groups"); found != resources.end() && !found->is_null()) {
      if (!found->is_array() || found->size() > all_roles.size()) return no_groups("they are no short list");
      for (const json& one : *found) {
        auto group = read_group(one);
        if (!group) return group.error();
        groups.push_back(std::move(*group));
      }
    } else {
      groups.push_back({Role::worker, resources.at("workers"), resources.at("per_worker")});
    }
    return groups;
  } catch (const json::exception& e) {
    return no_groups(e.what());
  }
}

std::optional<std::string> groups_differ(const RoleGroups& of_checkpoint, const RoleGroups& of_job) {
  const auto text = [](const RoleGroups& groups) {
    std::string all;
    for (const auto& group : groups) all += (all.empty() ? "" : " and ") + counted(group.role, group.count);
    return all;
  };
  const bool same = std::ranges::all_of(
      all_roles, [&](Role role) { return count_of(of_checkpoint, role) == count_of(of_job, role); });
  if (same) return std::nullopt;
  return "the checkpoint is of " + text(of_checkpoint) + ", and the job has " + text(of_job);
}

}  // namespace weir::protocol
