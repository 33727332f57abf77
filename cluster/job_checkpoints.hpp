#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/pieces.hpp"
#include "cluster/services.hpp"
#include "protocol/share_assembly.hpp"
#include "protocol/training.hpp"

namespace weir::cluster {

/// The checkpoints of a running job: joins the ranks' shares into files, records them in the store, and removes those
/// that are too old to keep. Lives on the head's strand.
class JobCheckpoints {
 public:
  /// `world`: number of ranks. `kept_max`: how many files stay, at least 1. `kept`: the steps of the files that exist
  /// already.
  JobCheckpoints(Services& services, std::string job_id, std::size_t world, std::size_t kept_max,
                 std::vector<std::uint64_t> kept);

  /// Adds a piece of one rank's share. One that is there already, or of a checkpoint that is complete or was given up
  /// for newer ones, changes nothing. Fails with: as protocol::ShareAssembly::add().
  Result<void> add(const protocol::CheckpointPiece& piece);
  /// Takes the shares of all ranks, in rank order, once they have all come: the checkpoint is then complete.
  std::optional<std::vector<Pieces>> take(std::uint64_t step);
  bool is_complete(std::uint64_t step) const { return complete_.contains(step); }
  /// The newest step whose shares have all come; 0 if there is none.
  std::uint64_t newest() const { return complete_.empty() ? 0 : *complete_.rbegin(); }
  /// The newest step whose file is committed, be it by an earlier attempt; 0 if there is none.
  std::uint64_t newest_kept() const { return kept_.empty() ? 0 : kept_.back(); }
  /// Whether the file of newest() is committed, or there is none to write.
  bool newest_is_kept() const { return newest_kept() >= newest(); }

  /// Writes the file, commits that it exists, and removes the files that it replaces. If it fails, there is no file.
  /// Fails with: malformed (shares that do not fit together), io, exhausted (disk full), and the errors of the store.
  net::awaitable<Result<void>> write(std::uint64_t step, std::vector<Pieces> shares);

  /// The steps of the files that are committed, ascending.
  const std::vector<std::uint64_t>& kept() const { return kept_; }

 private:
  net::awaitable<void> prune();
  std::vector<std::uint64_t> surplus_of(const std::vector<std::uint64_t>& steps) const;
  net::awaitable<void> remove(std::vector<std::uint64_t> steps);

  Services& services_;
  const std::string job_id_;
  const std::filesystem::path dir_;
  const std::size_t world_;
  const std::size_t kept_max_;
  std::vector<std::uint64_t> kept_;                                       ///< committed ones, ascending
  std::map<std::uint64_t, std::vector<protocol::ShareAssembly>> shares_;  ///< by step and rank, until they are taken
  std::set<std::uint64_t> complete_;                                      ///< steps whose shares have all come
  std::optional<std::uint64_t> given_up_;  ///< of the steps up to this one no more shares are waited for
};

}  // namespace weir::cluster
