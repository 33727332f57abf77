#include "actors/session.hpp"

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errc.hpp"
#include "collectives/topologies/catalog.hpp"

namespace weir::actors {
namespace {

constexpr std::chrono::seconds join_deadline{20};

/// Checks that this worker supports the exchange. The head refuses other names by schema and catalog, but may be
/// another build.
Result<void> check_exchange(const protocol::JobSpec::Exchange& wanted, std::uint32_t world) {
  const auto* topology = collectives::find_topology(wanted.topology);
  const bool automatic = wanted.topology == training::AutoPlan::name;
  if (topology == nullptr && !automatic) {
    return Error{Errc::unsupported, "exchange.topology \"" + wanted.topology + "\" is not built into this worker"};
  }
  if (topology != nullptr && !topology->fits(world)) {
    return Error{Errc::invalid_argument, "exchange.topology \"" + wanted.topology + "\" does not work for " +
                                             std::to_string(world) + " workers"};
  }
  if (wanted.transport != "auto" && wanted.transport != "tcp") {
    return Error{Errc::unsupported, "exchange.transport \"" + wanted.transport + "\" is not built into this worker"};
  }
  return {};
}

/// Otherwise there is no group, and nothing listens.
bool exchanges_something(const protocol::JobSpec& spec) {
  const auto* mode = training::modes().find(spec.training.mode.name);
  return mode == nullptr || mode->exchanges != training::Exchanged::nothing;
}

}  // namespace

Session::Session(protocol::Assignment assignment, Outlets outlets)
    : assignment_(std::move(assignment)), outlets_(std::move(outlets)) {}

Session::~Session() = default;

Result<protocol::Prepared> Session::prepare() {
  const auto json = nlohmann::json::parse(assignment_.spec, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Error{Errc::malformed, "the job spec is not JSON"};
  auto spec = protocol::parse_job_spec(json);
  if (!spec) return spec.error();
  spec_ = std::move(*spec);
  if (auto built = check_exchange(spec_.exchange, assignment_.world); !built) return built.error();

  // The port is bound first: that is cheap, and reading the data may take a while.
  std::unique_ptr<collectives::Mesh> mesh;
  if (exchanges_something(spec_)) {
    auto bound = collectives::Mesh::bind(assignment_.listen_host);
    if (!bound) return bound.error();
    mesh = std::move(*bound);
  }
  const std::uint16_t port = mesh ? mesh->port() : 0;
  auto replica = training::Replica::make(spec_, assignment_.rank, assignment_.world);
  if (!replica) return replica.error();
  if (!assignment_.resume_from.empty()) {
    if (auto restored = (*replica)->restore(assignment_.resume_from); !restored) return restored.error();
    saved_step_ = (*replica)->step;
  }

  metrics_ = std::make_unique<Metrics>(
      Metrics::Options{.steps_total = (*replica)->steps_total, .warmup_steps = (*replica)->warmup_steps()});
  steps_done_ = (*replica)->step;
  const protocol::Prepared prepared{.endpoint = {assignment_.rank, assignment_.listen_host, port},
                                    .steps_total = (*replica)->steps_total,
                                    .parameters = (*replica)->parameter_count()};
  const std::lock_guard lock(mutex_);
  if (abort_cause_) return *abort_cause_;
  mesh_ = std::move(mesh);
  replica_ = std::move(*replica);
  return prepared;
}

Result<void> Session::join(const std::vector<protocol::RankEndpoint>& endpoints) {
  if (!exchanges_something(spec_)) return {};
  std::vector<collectives::Peer> peers;
  for (const auto& endpoint : endpoints) peers.push_back({endpoint.host, endpoint.port});
  const collectives::Group group{.job_id = assignment_.job_id,
                                 .attempt = assignment_.attempt,
                                 .secret = assignment_.group_secret,
                                 .rank = assignment_.rank,
                                 .size = assignment_.world,
                                 .shared_memory = spec_.exchange.transport != "tcp",
                                 .bytes_per_second = spec_.training.conditions.link_bytes_per_second(assignment_.rank)};
  auto communicator = mesh_->join(group, peers, join_deadline);
  if (!communicator) return communicator.error();
  {
    const std::lock_guard lock(mutex_);
    mesh_.reset();
    group_ = std::move(*communicator);
    if (abort_cause_) return *abort_cause_;
  }
  auto joined = replica_->join(*group_);
  if (!joined) group_->abort(joined.error());
  return joined;
}

void Session::abort(const Error& cause, bool leaves) {
  const std::lock_guard lock(mutex_);
  if (abort_cause_) return;
  abort_cause_ = cause;
  if (mesh_) mesh_->abort(cause);
  if (group_) group_->abort(cause, leaves);
  shares_.release(shares_max);  // nobody may deliver any more, so a waiting take_checkpoint() must go on
}

protocol::TrainingEnd Session::end(protocol::Outcome outcome, std::string cause) const {
  return {.job_id = assignment_.job_id,
          .rank = assignment_.rank,
          .attempt = assignment_.attempt,
          .outcome = outcome,
          .step = steps_done_,
          .lost_rank = {},
          .consequence = false,
          .cause = std::move(cause)};
}

Result<bool> Session::run_mode() {
  auto finished = replica_->mode->train(*replica_, *this);
  if (!finished) return finished.error();
  if (replica_->exchange) traffic_.finish(replica_->exchange->trace());
  if (auto saved = take_checkpoint(*replica_); !saved) return saved.error();
  if (auto given = give_model(*replica_); !given) return given.error();
  return finished;
}

protocol::TrainingEnd Session::train() {
  Result<bool> finished = false;
  try {
    finished = run_mode();
  } catch (const std::exception& thrown) {
    finished = Error{Errc::internal, thrown.what()};
  }
  if (finished) {
    close();
    return end(*finished ? protocol::Outcome::finished : protocol::Outcome::stopped);
  }
  auto failed = end(protocol::Outcome::failed, finished.error().message());
  if (!group_) return failed;
  group_->abort(finished.error());  // unless it is the group that has failed
  failed.lost_rank = group_->lost_rank();
  failed.consequence = group_->ended_by_another();
  return failed;
}

void Session::close() {
  std::unique_ptr<collectives::Fabric> group;
  {
    const std::lock_guard lock(mutex_);
    mesh_.reset();
    replica_.reset();
    group = std::move(group_);
  }
  if (group) group->close();
}

Result<void> Session::step_done(const training::Replica& replica, const training::StepRecord& record) {
  {
    const std::lock_guard lock(mutex_);
    if (!group_ && abort_cause_) return *abort_cause_;  // nothing else would tell
  }
  metrics_->add(record, group_ ? group_->traffic() : collectives::Traffic());
  if (replica.exchange && replica.rank == 0) {
    if (auto plan = replica.exchange->new_plan()) {
      if (plan->step > 0) plan->step = record.step - 1;  // the exchange has counted its own steps
      traffic_.planned(std::move(*plan));
    }
  }
  if (replica.exchange && record.exchanged) traffic_.add(record.step, record.seconds, replica.exchange->trace());
  steps_done_ = record.step;
  const auto is_multiple_of = [&](std::uint64_t every) { return every > 0 && record.step % every == 0; };
  checkpoint_due_ = checkpoint_due_ || is_multiple_of(spec_.checkpoint_every_steps);
  evaluation_due_ = evaluation_due_ || is_multiple_of(spec_.evaluate_every_steps);
  if (!record.exchanged || record.step == replica.steps_total) return {};
  if (std::exchange(checkpoint_due_, false)) {
    if (auto saved = take_checkpoint(replica); !saved) return saved.error();
  }
  return std::exchange(evaluation_due_, false) ? give_model(replica) : Result<void>();
}

Result<void> Session::take_checkpoint(const training::Replica& replica) {
  if (saved_step_ == replica.step) return {};
  shares_.acquire();
  {
    const std::lock_guard lock(mutex_);
    if (abort_cause_) return *abort_cause_;
  }
  auto share = replica.save();
  if (!share) {
    shares_.release();
    return share.error();
  }
  saved_step_ = replica.step;
  outlets_.checkpoint(Segment::own(std::move(*share)), replica.step);
  return {};
}

Result<void> Session::give_model(const training::Replica& replica) {
  if (replica.rank != 0) return {};
  auto model = replica.save_model();
  if (!model) return model.error();
  auto at = metrics_->here();
  at.step = replica.step;
  outlets_.evaluate(Segment::own(std::move(*model)), std::move(at));
  return {};
}

}  // namespace weir::actors
