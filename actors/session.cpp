#include "actors/session.hpp"

#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errc.hpp"
#include "collectives/topologies/catalog.hpp"
#include "training/modes/mode.hpp"
#include "training/replica.hpp"
#include "training/thrown.hpp"

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

bool has_state_server(const protocol::JobSpec& spec) {
  const auto* mode = training::modes().find(spec.training.mode.name);
  return mode != nullptr && mode->roles.contains(std::string(to_string(protocol::Role::state_server)));
}

/// Checks that the ranks of the job are those that its mode needs, and that this one is in its place among them.
Result<void> check_place(const protocol::Assignment& assignment, const protocol::JobSpec& spec) {
  const auto refuse = [&](const std::string& reason) {
    return Error{Errc::invalid_argument, "rank " + std::to_string(assignment.rank) + " of " +
                                             std::to_string(assignment.world) + " workers among " +
                                             std::to_string(assignment.members) + " ranks: " + reason};
  };
  if (assignment.world == 0 || assignment.world > assignment.members || assignment.rank >= assignment.members) {
    return refuse("there is no such rank");
  }
  if ((assignment.role == protocol::Role::worker) != (assignment.rank < assignment.world)) {
    return refuse("workers are the first ranks, and this is to be a " + std::string(to_string(assignment.role)));
  }
  const auto* mode = training::modes().find(spec.training.mode.name);
  if (mode == nullptr) return {};
  const std::string of_mode = "training.mode \"" + spec.training.mode.name + "\" ";
  if (mode->roles.is_null() != (assignment.members == assignment.world)) {
    return refuse(of_mode + "needs " + (mode->roles.is_null() ? "workers only" : "other processes beside the workers"));
  }
  const std::string role(to_string(assignment.role));
  const bool wanted = assignment.role == protocol::Role::worker || mode->roles.contains(role);
  return wanted ? Result<void>() : refuse(of_mode + "has no use for a " + role);
}

}  // namespace

Session::Session(protocol::Assignment assignment, MakeRole make_role, Outlets outlets)
    : assignment_(std::move(assignment)), make_role_(std::move(make_role)), outlets_(std::move(outlets)) {}

Session::~Session() = default;

Result<protocol::Prepared> Session::prepare(const Segment& checkpoint) {
  const auto json = nlohmann::json::parse(assignment_.spec, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Error{Errc::malformed, "the job spec is not JSON"};
  auto spec = protocol::parse_job_spec(json);
  if (!spec) return spec.error();
  spec_ = std::move(*spec);
  if (auto built = check_exchange(spec_.exchange, assignment_.world); !built) return built.error();
  if (auto fits = check_place(assignment_, spec_); !fits) return fits.error();

  // The port is bound first: that is cheap, and reading the data may take a while.
  std::unique_ptr<collectives::Mesh> mesh;
  if (exchanges_something(spec_)) {
    auto bound = collectives::Mesh::bind(assignment_.listen_host);
    if (!bound) return bound.error();
    mesh = std::move(*bound);
  }
  const std::uint16_t port = mesh ? mesh->port() : 0;
  auto role = make_role_(spec_, assignment_);
  if (!role) return role.error();
  if (!checkpoint.empty()) {
    if (auto restored = (*role)->restore(checkpoint); !restored) return restored.error();
    saved_step_ = (*role)->step();
  }
  metrics_ = std::make_unique<Metrics>(Metrics::Options{
      .steps_total = (*role)->steps_total(), .steps_done = (*role)->step(), .warmup = (*role)->warmup()});
  steps_done_ = (*role)->step();
  holds_model_ = (*role)->holds_model();
  const protocol::Prepared prepared{.endpoint = {assignment_.rank, assignment_.listen_host, port},
                                    .steps_total = (*role)->steps_total(),
                                    .parameters = (*role)->parameters(),
                                    .step = (*role)->step()};
  const std::lock_guard lock(mutex_);
  if (abort_cause_) return *abort_cause_;
  mesh_ = std::move(mesh);
  role_ = std::move(*role);
  return prepared;
}

Result<void> Session::join(const std::vector<protocol::RankEndpoint>& endpoints) {
  if (!exchanges_something(spec_)) return {};
  std::vector<collectives::Peer> peers;
  for (const auto& endpoint : endpoints) peers.push_back({endpoint.host, endpoint.port});
  collectives::Group group{.job_id = assignment_.job_id,
                           .attempt = assignment_.attempt,
                           .secret = assignment_.group_secret,
                           .rank = assignment_.rank,
                           .size = assignment_.members,
                           .shared_memory = spec_.exchange.transport != "tcp",
                           .bytes_per_second = spec_.training.conditions.link_bytes_per_second(assignment_.rank)};
  if (has_state_server(spec_)) ++group.lanes;  // for the talk with it
  auto communicator = mesh_->join(group, peers, join_deadline);
  if (!communicator) return communicator.error();
  {
    const std::lock_guard lock(mutex_);
    mesh_.reset();
    group_ = std::move(*communicator);
    if (abort_cause_) return *abort_cause_;
  }
  Result<void> joined;
  try {
    joined = role_->join(*group_);
  } catch (const std::exception& thrown) {  // LibTorch's: what is exchanged takes memory of a device here
    joined = training::error_of(thrown);
  }
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

protocol::TrainingEnd Session::train() {
  Result<bool> finished = false;
  try {
    finished = role_->run(*this);
    if (finished && group_) traffic_.finish(*group_, role_->traffic());
  } catch (const std::exception& thrown) {
    finished = training::error_of(thrown);
  }
  if (finished) {
    metrics_->finish();
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
  collectives::Fabric* group = nullptr;
  {
    const std::lock_guard lock(mutex_);
    mesh_.reset();
    role_.reset();
    group = group_.get();
  }
  if (group == nullptr) return;
  group->close();
  std::unique_ptr<collectives::Fabric> left;
  const std::lock_guard lock(mutex_);
  left = std::move(group_);
}

Result<void> Session::step_done(const training::Replica& replica, const training::StepRecord& record) {
  {
    const std::lock_guard lock(mutex_);
    if (!group_ && abort_cause_) return *abort_cause_;  // nothing else would tell
  }
  metrics_->add(record, group_ ? group_->traffic() : collectives::Traffic());
  if (record.consensus_distance) metrics_->add("consensus_distance", metrics_->here(), *record.consensus_distance);
  if (replica.exchange && replica.rank == 0) {
    if (auto plan = replica.exchange->new_plan()) {
      if (plan->step > 0) plan->step = record.step - 1;  // the exchange has counted its own steps
      traffic_.planned(std::move(*plan));
    }
  }
  if (record.exchanged && group_) {
    traffic_.add(record.step, record.seconds, *group_, replica.mode->traffic(replica));
  }
  steps_done_ = record.step;
  const std::uint64_t before = record.step - record.steps;
  checkpoint_due_ = checkpoint_due_ || checkpoint_due(before, record.step);
  evaluation_due_ = evaluation_due_ || evaluation_due(before, record.step);
  if (!record.settled || record.step == replica.length.steps_total) return {};
  if (std::exchange(checkpoint_due_, false)) {
    auto share = replica.save();
    auto kept = share ? keep(replica.step, std::move(*share)) : Result<void>(share.error());
    if (!kept) return kept;
  }
  if (!std::exchange(evaluation_due_, false) || !holds_model_) return {};
  auto model = replica.save_model();
  return model ? evaluate(replica.step, std::move(*model)) : Result<void>(model.error());
}

bool Session::checkpoint_due(std::uint64_t before, std::uint64_t now) const {
  return training::is_due(spec_.checkpoint_every_steps, before, now);
}

bool Session::evaluation_due(std::uint64_t before, std::uint64_t now) const {
  return training::is_due(spec_.evaluate_every_steps, before, now);
}

Result<void> Session::served(const training::ServedRecord& record) {
  metrics_->add(record, group_->traffic());
  steps_done_ = record.step;
  traffic_.add(record.step, record.wait_seconds, *group_, role_->traffic());
  return {};
}

void Session::granted(std::uint64_t step) {
  steps_done_ = step;
  traffic_.add(step, /*seconds=*/0, *group_, role_->traffic());
}

Result<void> Session::keep(std::uint64_t step, Bytes share) {
  steps_done_ = step;
  if (saved_step_ == step) return {};
  shares_.acquire();
  {
    const std::lock_guard lock(mutex_);
    if (abort_cause_) return *abort_cause_;
  }
  saved_step_ = step;
  outlets_.checkpoint(Segment::own(std::move(share)), step);
  return {};
}

Result<void> Session::evaluate(std::uint64_t step, Bytes model) {
  // A worker that stops where it was due to evaluate gives the same model again. A server may have applied more since.
  const auto before = std::exchange(evaluated_step_, step);
  if (before == step && assignment_.role == protocol::Role::worker) return {};
  auto at = metrics_->here();
  at.step = step;
  outlets_.evaluate(Segment::own(std::move(model)), std::move(at));
  return {};
}

}  // namespace weir::actors
