#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cluster/head.hpp"
#include "protocol/job_spec.hpp"
#include "protocol/training_shape.hpp"

/// Whether a job can go on from the checkpoint of another one. Pure functions.
namespace weir::cluster {

/// A job as it is known before it runs. Whoever makes one keeps what it refers to.
struct KnownJob {
  const nlohmann::json& spec;  ///< normalized
  const protocol::JobSpec& parsed;
  const protocol::TrainingShape* shape = nullptr;  ///< null if it is not known
};

/// The job that another one goes on from.
struct Origin {
  std::string id;
  KnownJob job;
  std::span<const CheckpointRecord> checkpoints;  ///< all that it has, ascending; at least one
};

/// Why a job whose spec names a checkpoint of `origin` (resume_from) cannot go on from it: what differs between the two
/// jobs and what the checkpoint has depends on, or that there is no such checkpoint, or no step left to make.
std::vector<protocol::Problem> problems_of_resuming(const KnownJob& job, const Origin& origin,
                                                    const nlohmann::json& catalog);

/// Warnings for a job that can: schedules and warm-ups go by epochs, which may have another length here, and the
/// warm-up of the compressor may begin again.
std::vector<Warning> warnings_of_resuming(const KnownJob& job, const Origin& origin, const nlohmann::json& catalog);

}  // namespace weir::cluster
