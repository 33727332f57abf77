#pragma once

#include <string>
#include <string_view>

/// As whom processes link with the head (see runtime::ActorSystem::Options::account). Each account has a secret of its
/// own, and none of them opens the HTTP API.
namespace weir::protocol::accounts {

/// Nodes; the secret is in the head's data directory.
inline constexpr std::string_view node = "node";

/// The workers of a job; the secret is drawn for each attempt, and its nodes get it with the order to start a worker.
inline std::string job(std::string_view job_id) { return "job:" + std::string(job_id); }

}  // namespace weir::protocol::accounts
