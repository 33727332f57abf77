#pragma once

#include <string_view>

/// How a node agent starts `weir-worker run`: what the process is told, all of it through its environment.
///
/// Besides these, the process spawner gives the child a lifeline (WEIR_LIFELINE_FD, see runtime/process.hpp): a pipe
/// whose end tells the worker that its agent is gone. It then exits at once. Standard output and error are the worker's
/// log.
///
/// The worker connects to the head, offers a WorkerHost named "worker", announces it with Jobs.worker_up and exits with
/// 0 when the head refuses it (nobody waits for it any more) or on SIGTERM, with 1 when the head cannot be reached or
/// its link breaks, with 2 when the environment below is incomplete.
namespace weir::protocol::worker_environment {

/// WorkerLaunch.worker_id. Required.
inline constexpr std::string_view worker_id = "WEIR_WORKER_ID";
/// The head's control port, "host:port". Required.
inline constexpr std::string_view head = "WEIR_HEAD";
/// The cluster's secret, with which worker and head prove themselves to each other. Required. The system shows a
/// process's environment to its own user only; the worker removes it from there when it has read it.
inline constexpr std::string_view secret = "WEIR_SECRET";
/// Address on which gradient connections of other workers may reach this one. Default: 127.0.0.1.
inline constexpr std::string_view listen_host = "WEIR_LISTEN_HOST";
/// Threads for tensor operations, a whole number: the slot's cpu, at least 1. Default: 1. The agent also sets
/// OMP_NUM_THREADS and OPENBLAS_NUM_THREADS to it, which those libraries read before the worker's own code runs.
inline constexpr std::string_view threads = "WEIR_THREADS";

}  // namespace weir::protocol::worker_environment
