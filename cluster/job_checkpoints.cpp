#include "cluster/job_checkpoints.hpp"

#include <algorithm>
#include <utility>

#include "cluster/job_files.hpp"
#include "cluster/run_on.hpp"

namespace weir::cluster {
namespace {

constexpr std::size_t open_max = 4;  // checkpoints that may wait for shares at a time

/// Inserts a step into ascending ones. Returns false if it is there already.
bool insert(std::vector<std::uint64_t>& steps, std::uint64_t step) {
  const auto at = std::ranges::lower_bound(steps, step);
  if (at != steps.end() && *at == step) return false;
  steps.insert(at, step);
  return true;
}

bool are_whole(const std::vector<protocol::ShareAssembly>& shares) {
  return std::ranges::all_of(shares, &protocol::ShareAssembly::is_whole);
}

}  // namespace

JobCheckpoints::JobCheckpoints(Services& services, std::string job_id, std::size_t world, std::size_t kept_max,
                               std::vector<std::uint64_t> kept)
    : services_(services),
      job_id_(std::move(job_id)),
      dir_(services.job_dir(job_id_)),
      world_(world),
      kept_max_(kept_max),
      kept_(std::move(kept)) {}

Result<void> JobCheckpoints::add(const protocol::CheckpointPiece& piece) {
  if (complete_.contains(piece.step)) return {};  // a repeat: the first answer was lost with a link
  if (given_up_ && piece.step <= *given_up_) return {};
  const auto [at, is_new] = shares_.try_emplace(piece.step, world_);
  auto added = at->second.at(piece.rank).add(piece);
  if (!added && is_new) shares_.erase(at);
  if (added && shares_.size() > open_max && !are_whole(at->second)) {
    given_up_ = shares_.begin()->first;
    shares_.erase(shares_.begin());
  }
  return added;
}

std::optional<std::vector<Pieces>> JobCheckpoints::take(std::uint64_t step) {
  const auto found = shares_.find(step);
  if (found == shares_.end() || !are_whole(found->second)) return std::nullopt;
  std::vector<Pieces> all;
  for (const auto& share : found->second) all.push_back(share.bytes());
  shares_.erase(found);
  complete_.insert(step);
  return all;
}

net::awaitable<Result<void>> JobCheckpoints::write(std::uint64_t step, std::vector<Pieces> shares) {
  auto join = [file = job_files::checkpoint_file(dir_, step), shares = std::move(shares)] {
    return job_files::write_checkpoint(file, shares);
  };
  auto written = co_await run_on(services_.files, std::move(join));
  if (!written) co_return written.error();
  CheckpointRecord checkpoint{job_id_, step, *written, services_.now()};
  nlohmann::json data = to_json(checkpoint);
  data["job"] = job_id_;
  // Others may be written meanwhile. They replace none before they are committed, which may fail.
  auto with_this = kept_;
  const bool is_new = insert(with_this, step);
  auto gone = surplus_of(with_this);
  std::vector<Change> changes;
  changes.push_back(change::AddCheckpoint{std::move(checkpoint)});
  changes.push_back(change::Publish{StreamKind::checkpoint, job_id_, to_text(data)});
  changes.push_back(
      services_.event(job_id_, Severity::info, "checkpoint.saved", "checkpoint at step " + std::to_string(step)));
  for (const auto one : gone) changes.push_back(change::RemoveCheckpoint{job_id_, one});
  auto committed = co_await services_.store->commit(std::move(changes));
  if (!committed) {
    gone.assign(is_new ? 1 : 0, step);
    co_await remove(std::move(gone));
    co_return committed;
  }
  insert(kept_, step);
  for (const auto one : gone) std::erase(kept_, one);
  co_await remove(std::move(gone));
  co_await prune();
  co_return committed;
}

/// Removes what two that were written at a time have both not replaced. If that cannot be committed, it goes with the
/// next one.
net::awaitable<void> JobCheckpoints::prune() {
  auto gone = surplus_of(kept_);
  if (gone.empty()) co_return;
  std::vector<Change> changes;
  for (const auto one : gone) changes.push_back(change::RemoveCheckpoint{job_id_, one});
  const auto committed = co_await services_.store->commit(std::move(changes));
  if (!committed) co_return;
  for (const auto one : gone) std::erase(kept_, one);
  co_await remove(std::move(gone));
}

/// Those of ascending steps that are too many.
std::vector<std::uint64_t> JobCheckpoints::surplus_of(const std::vector<std::uint64_t>& steps) const {
  const auto count = static_cast<std::ptrdiff_t>(steps.size() - std::min(steps.size(), kept_max_));
  return {steps.begin(), steps.begin() + count};
}

net::awaitable<void> JobCheckpoints::remove(std::vector<std::uint64_t> steps) {
  auto prune = [dir = dir_, steps = std::move(steps)] {
    std::error_code ignored;  // a file left over costs space, nothing else
    for (const auto step : steps) std::filesystem::remove(job_files::checkpoint_file(dir, step), ignored);
    return true;
  };
  co_await run_on(services_.files, std::move(prune));
}

}  // namespace weir::cluster
