#pragma once

#include <string_view>

/// How a node agent starts `weir-worker run`: everything the process is told, and how the two hold on to each other.
///
/// Standard input is a pipe from the agent. The agent writes one line, the cluster's secret (the token with which the
/// worker proves itself to the head), and then keeps the pipe open for as long as the worker may live. The secret thus
/// shows neither in the argument list nor in the environment, and the end of the pipe tells the worker that its agent
/// is gone: it then exits at once. Standard output and error are the worker's log.
///
/// The worker connects to the head, offers a WorkerHost named "worker", announces it with Jobs.worker_up and exits
/// with 0 when the head refuses it (nobody waits for it any more) or on SIGTERM, with 1 when the head cannot be reached
/// or its link stays broken, with 2 when the environment below is incomplete.
namespace weir::protocol::worker_environment {

/// WorkerLaunch.worker_id. Required.
inline constexpr std::string_view worker_id = "WEIR_WORKER_ID";
/// The head's control port, "host:port". Required.
inline constexpr std::string_view head = "WEIR_HEAD";
/// Address on which gradient connections of other workers may reach this one. Default: 127.0.0.1.
inline constexpr std::string_view listen_host = "WEIR_LISTEN_HOST";
/// Threads for tensor operations, a whole number: the slot's cpu, at least 1. Default: 1.
inline constexpr std::string_view threads = "WEIR_THREADS";

}  // namespace weir::protocol::worker_environment
