#pragma once

#include <string>
#include <string_view>

/// The accounts with which processes authenticate to the head (see runtime::ActorSystem::Options::account). Each
/// account has its own secret, and none of them gives access to the HTTP API.
namespace weir::protocol::accounts {

/// The account of nodes; its secret is in the head's data directory.
inline constexpr std::string_view node = "node";

/// The account of a job's workers; its secret is drawn for each attempt, and nodes get it with the order to start a
/// worker.
inline std::string job(std::string_view job_id) { return "job:" + std::string(job_id); }

}  // namespace weir::protocol::accounts
