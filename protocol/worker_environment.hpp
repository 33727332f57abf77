#pragma once

#include <string_view>

/// How a node agent starts `weir-worker run`: the inputs of the process, and how the two notice each other's end.
///
/// The first line on standard input is the secret of the job, with which worker and head authenticate each other (see
/// protocol/accounts.hpp); it thus appears neither in the argument list nor in the environment. The same pipe is the
/// lifeline that the process spawner gives a child (WEIR_LIFELINE_FD, see runtime/process.hpp): its end tells the
/// worker that its agent is gone, and it exits at once. Standard output and error are the worker's log.
///
/// The worker connects to the head, spawns a Worker named "worker" and announces it with Coordinator.worker_up; when
/// the link breaks, it connects and announces again. It exits with 0 when the head refuses it (it is not wanted any
/// more) or on SIGTERM, with 1 when the head was not reached for the time of the lease or the agent is gone, with 2
/// when a required input is missing or invalid.
namespace weir::protocol::worker_environment {

/// WorkerLaunch.worker_id. Required.
inline constexpr std::string_view worker_id = "WEIR_WORKER_ID";
/// WorkerLaunch.job_id. Required.
inline constexpr std::string_view job_id = "WEIR_JOB_ID";
/// The head's control port, "host:port". Required.
inline constexpr std::string_view head = "WEIR_HEAD";
/// Address on which gradient connections of other workers may reach this one. Default: 127.0.0.1.
inline constexpr std::string_view listen_host = "WEIR_LISTEN_HOST";
/// Threads for tensor operations, a whole number: the slot's cpu, at least 1. Default: 1.
inline constexpr std::string_view threads = "WEIR_THREADS";
/// Directory with the TorchScript modules that jobs may name: that of `weir node --modules`. Unset: there is none.
inline constexpr std::string_view modules = "WEIR_MODULES";
/// Milliseconds that the worker continues without a link to the head: NodeWelcome.lease_milliseconds. Default: 10000.
inline constexpr std::string_view lease = "WEIR_LEASE_MILLISECONDS";

}  // namespace weir::protocol::worker_environment
