#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "protocol/roles.hpp"
#include "protocol/traffic.hpp"
#include "runtime/actor_ref.hpp"
#include "runtime/methods.hpp"

namespace weir::protocol {

namespace net = boost::asio;

/// Where a rank accepts gradient connections. Every process of a job has a rank: the workers first, then its servers.
struct RankEndpoint {
  std::uint32_t rank = 0;
  std::string host;
  std::uint16_t port = 0;
};

/// One rank's part of a job.
struct Assignment {
  std::string job_id;
  std::string spec;  ///< the normalized job spec, JSON
  std::uint32_t rank = 0;
  std::uint32_t world = 1;    ///< workers: ranks 0 to world - 1
  std::uint32_t members = 1;  ///< all ranks of the job: the workers, then parameter servers, then the state server
  Role role = Role::worker;   ///< of this rank
  std::uint64_t attempt = 0;  ///< fencing number of this attempt of the job; the gradient sockets refuse any other
  std::string group_secret;   ///< the ranks of this job prove to each other that they know it
  std::string listen_host;    ///< where to accept gradient connections
  /// How long what the rank goes on from is (protocol/checkpoint_part.hpp); Coordinator::resume() gives it. 0: the rank
  /// begins anew.
  std::uint64_t resume_bytes = 0;
};

struct Prepared {
  RankEndpoint endpoint;
  std::uint64_t steps_total = 0;
  std::uint64_t parameters = 0;  ///< trained scalars
  std::uint64_t step = 0;        ///< of the checkpoint that it goes on from
};

/// One value of a worker's time series. The names are those of the API: loss, samples_per_second, bytes_sent, ...
struct MetricPoint {
  std::string name;
  std::uint64_t step = 0;
  double wall_seconds = 0;       ///< since the worker's first step began
  std::uint64_t wire_bytes = 0;  ///< gradient bytes this worker had written to sockets by then
  double value = 0;
};

/// A worker's progress. Reports are numbered from 1 per worker: the head accepts each number once and answers when it
/// is committed; the worker repeats a report until then.
struct Report {
  std::string job_id;
  std::uint32_t rank = 0;
  std::uint64_t attempt = 0;
  std::uint64_t sequence = 0;
  std::uint64_t step = 0;  ///< steps completed
  std::vector<MetricPoint> points;
  std::optional<TrafficReport> traffic;  ///< now and then
};

/// How much of a checkpoint one call carries at most, on its way to the head or back: a small part of what a link
/// carries in the time limit of a call, and long enough that the round trip does not count.
inline constexpr std::uint64_t checkpoint_piece_bytes = 8 << 20;

/// The longest share of a checkpoint that the head takes. Memory is used for what has come of it, as it comes.
inline constexpr std::uint64_t share_bytes_max = std::uint64_t{256} << 30;

/// One rank's share of a checkpoint, itself a safetensors file. The head joins the shares of all ranks, servers
/// included, into one file.
struct CheckpointShare {
  std::string job_id;
  std::uint32_t rank = 0;
  std::uint64_t attempt = 0;
  std::uint64_t step = 0;
  Segment safetensors;
};

/// A piece of a share. They come in order: each has checkpoint_piece_bytes, but the last one what is left.
struct CheckpointPiece {
  std::string job_id;
  std::uint32_t rank = 0;
  std::uint64_t attempt = 0;
  std::uint64_t step = 0;
  std::uint64_t share_bytes = 0;  ///< of the whole share
  std::uint64_t offset = 0;       ///< of the piece in the share
  Segment bytes;
};

struct ResumeRequest {
  std::string job_id;
  std::uint32_t rank = 0;
  std::uint64_t attempt = 0;
  std::uint64_t offset = 0;  ///< bytes that the rank has already
};

/// How long the evaluation of a model may take. It shares its cores with the training; this limit only guards against
/// one that never ends.
inline constexpr std::chrono::minutes evaluation_limit{30};

enum class Outcome : std::uint8_t { finished, stopped, failed };
constexpr Outcome last_value(Outcome) { return Outcome::failed; }

/// A rank's last message: how its training ended.
struct TrainingEnd {
  std::string job_id;
  std::uint32_t rank = 0;
  std::uint64_t attempt = 0;
  Outcome outcome = Outcome::finished;
  std::uint64_t step = 0;
  std::optional<std::uint32_t> lost_rank;  ///< failed because this peer's connection broke
  bool consequence = false;                ///< failed because another rank ended the exchange, which knows the cause
  std::string cause;                       ///< for people, if it failed
};

/// The interface of a trainer, which the head calls: that of a worker, a parameter server or a state server. All of
/// them report and end to the Coordinator.
struct Training {
  static constexpr std::string_view type_name = "training";
  virtual ~Training() = default;

  /// Builds model, shard and exchange and opens the gradient port. A call that is repeated, because a link broke before
  /// the answer, has the answer of the first.
  /// Fails with: invalid_argument, not_found (dataset), malformed (dataset, checkpoint), io.
  virtual net::awaitable<Result<Prepared>> prepare(Assignment assignment) = 0;

  /// Connects the gradient sockets of the group (`peers` holds every rank, in rank order) and starts training.
  /// Returns as soon as the first step may begin. May be repeated as prepare(). Fails with: peer_lost, unauthenticated,
  /// deadline_exceeded.
  virtual net::awaitable<Result<void>> start(std::vector<RankEndpoint> peers) = 0;

  /// Asks for a stop at the next step that all ranks agree on; a checkpoint is taken there. The TrainingEnd follows.
  virtual net::awaitable<Result<void>> stop() = 0;

  /// Makes every waiting exchange of this rank fail now, because a peer is gone. The TrainingEnd follows.
  virtual net::awaitable<Result<void>> abort(std::string cause) = 0;

  static constexpr auto methods() {
    return runtime::methods<runtime::Method<&Training::prepare, "prepare">, runtime::Method<&Training::start, "start">,
                            runtime::Method<&Training::stop, "stop">, runtime::Method<&Training::abort, "abort">>();
  }
};

/// The interface of a worker process that creates its other actors: the actor named "worker".
struct Worker {
  static constexpr std::string_view type_name = "worker";
  virtual ~Worker() = default;

  /// Creates an actor of a type from the worker's catalog ("trainer", ...) and returns its id, or that of the one which
  /// was created before: the call may be repeated.
  /// Fails with: not_found (no such type), invalid_argument.
  virtual net::awaitable<Result<std::uint64_t>> create(std::string type, std::string name) = 0;

  static constexpr auto methods() { return runtime::methods<runtime::Method<&Worker::create, "create">>(); }
};

/// The head's interface that workers call: the actor named "coordinator".
struct Coordinator {
  static constexpr std::string_view type_name = "coordinator";
  virtual ~Coordinator() = default;

  /// Announces a worker process. Fails with: not_found or conflict (it is not wanted any more; it then exits).
  virtual net::awaitable<Result<void>> worker_up(std::string worker_id, runtime::ActorRef<Worker> worker) = 0;

  /// Returns when the report is committed. Fails with: conflict (an earlier attempt).
  virtual net::awaitable<Result<void>> report(Report report) = 0;

  /// Returns when the head has the piece, or does not wait for it any more; it writes the checkpoint once it has the
  /// shares of all ranks. A piece may be repeated. Fails with: conflict (an earlier attempt), exhausted (others wait to
  /// be written: send it again), and as ShareAssembly::add().
  virtual net::awaitable<Result<void>> checkpoint(CheckpointPiece piece) = 0;

  /// The next piece of what the rank goes on from, at most checkpoint_piece_bytes; nothing at its end. Fails with:
  /// conflict (an earlier attempt, or one that begins anew), io.
  virtual net::awaitable<Result<Segment>> resume(ResumeRequest request) = 0;

  virtual net::awaitable<Result<void>> ended(TrainingEnd end) = 0;

  static constexpr auto methods() {
    return runtime::methods<
        runtime::Method<&Coordinator::worker_up, "worker_up">, runtime::Method<&Coordinator::report, "report">,
        runtime::Method<&Coordinator::checkpoint, "checkpoint">, runtime::Method<&Coordinator::resume, "resume">,
        runtime::Method<&Coordinator::ended, "ended">>();
  }
};

}  // namespace weir::protocol
