#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "protocol/resources.hpp"

namespace weir::protocol {

/// What a process of a job does: a worker computes gradients; a server keeps a share of the parameters, to which
/// workers send and from which they fetch; the state server knows what every worker is about and tells it what to do
/// next.
enum class Role : std::uint8_t { worker, server, state_server };
constexpr Role last_value(Role) { return Role::state_server; }
inline constexpr std::array all_roles = {Role::worker, Role::server, Role::state_server};

/// "worker", "server", "state_server"
std::string_view to_string(Role role);
std::optional<Role> role_of(std::string_view name);

/// For people: "worker 2", "server 0", "the state server".
std::string process_name(Role role, std::uint32_t number);
/// For people: "1 worker", "4 servers".
std::string counted(Role role, std::uint64_t count);

/// The type of the actor that the head asks a process of that role for (Worker::create). All implement Training.
std::string_view actor_type(Role role);

/// Equal processes of a job.
struct RoleGroup {
  Role role = Role::worker;
  std::uint32_t count = 0;
  Resources each;

  friend bool operator==(const RoleGroup&, const RoleGroup&) = default;
};

/// The processes of a job have consecutive ranks: the workers first, then the servers, then the state server.
using RoleGroups = std::vector<RoleGroup>;

/// All ranks of the job.
std::uint32_t members_of(const RoleGroups& groups);
/// Those of one role; 0 if there are none.
std::uint32_t count_of(const RoleGroups& groups, Role role);

/// A rank's place among the processes of its role.
struct RankRole {
  Role role = Role::worker;
  std::uint32_t number = 0;
};
/// `rank` is below members_of().
RankRole role_of_rank(const RoleGroups& groups, std::uint32_t rank);

/// A training mode's need for processes beside its workers: as many as a parameter of the mode says, or a fixed number.
/// A mode declares `static constexpr std::array roles = {protocol::RoleNeed{protocol::Role::server, "servers"}};`
struct RoleNeed {
  Role role = Role::server;
  std::string_view parameter = {};  ///< its name in training.params, an integer; empty: `count`
  std::uint32_t count = 1;
};

/// As a catalog states it: {"server": {"count": "servers"}, "state_server": {"count": 1}}
nlohmann::json to_json(std::span<const RoleNeed> needs);

/// The groups of a job whose spec is otherwise normalized, in a mode with this entry of the catalog. Fails with:
/// invalid_argument (the catalog's roles cannot be understood, more processes than a job may have), with a sentence.
Result<RoleGroups> groups_of(const nlohmann::json& spec, const nlohmann::json& mode);

/// As a normalized spec has them in /resources/groups: [{"role": "worker", "count": 2, "each": {"cpu": 1}}]
nlohmann::json to_json(const RoleGroups& groups);
/// Of a normalized spec; one that was normalized before there were roles has workers only.
/// Fails with: malformed.
Result<RoleGroups> read_groups(const nlohmann::json& spec);

/// What of two jobs' groups must be equal for one to continue from a checkpoint of the other: a sentence if it is not.
std::optional<std::string> groups_differ(const RoleGroups& of_checkpoint, const RoleGroups& of_job);

}  // namespace weir::protocol
