#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "protocol/conditions.hpp"
#include "protocol/resources.hpp"
#include "protocol/roles.hpp"
#include "protocol/schema.hpp"

namespace weir::protocol {

/// An entry of the catalog that a job names, with complete parameters (a JSON object).
struct Choice {
  std::string name;
  nlohmann::json params = nlohmann::json::object();
};

enum class Placement : std::uint8_t { pack, spread };

/// The numbers that a forward pass multiplies. Parameters, gradients and the loss are float32 in either.
enum class Precision : std::uint8_t { float32, bfloat16 };

/// A normalized job spec: job_spec.schema.json, typed. Every name is in the catalog and every default filled in.
struct JobSpec {
  struct Dataset {
    Choice choice;
    std::optional<std::string> path;
    std::string partition;         ///< iid, by_class, dirichlet
    double dirichlet_alpha = 0.5;  ///< concentration of the partition of that name
  };
  /// Limits of gradients; none: no limit.
  struct Clip {
    std::optional<double> norm = {};   ///< of all tensors together
    std::optional<double> value = {};  ///< of each entry
    bool local = false;                ///< a worker's own gradient, before the exchange; otherwise the mean, after it
  };
  struct Training {
    Choice mode;
    double epochs = 1;
    std::optional<std::uint64_t> max_steps;
    std::uint64_t batch_size = 64;  ///< samples of a worker in one forward and backward pass
    std::uint64_t accumulate = 1;   ///< batches of a worker in one optimizer step; a parameter of the mode
    Choice optimizer;
    Choice lr_schedule;
    std::uint64_t seed = 1;
    Clip clip = {};
    Conditions conditions = {};  ///< parameters of every mode
    Precision precision = Precision::float32;

    /// Samples of a worker in one optimizer step.
    std::uint64_t samples_per_step() const { return batch_size * accumulate; }
    /// The optimizer steps of the training if an epoch has so many: a part of one counts as one.
    std::uint64_t steps_total(std::uint64_t steps_per_epoch) const;
  };
  struct Compression {
    Choice compressor;
    Choice memory;  ///< the compressor's own default if the job named none; an empty name if there is none
    std::string apply_to = "gradients";  ///< or models
    std::string aggregation = "mean";    ///< what is made of the workers' values: mean, sum, min, max, weighted
  };
  struct Exchange {
    std::string topology;
    std::string transport;
    std::uint64_t bucket_bytes = 0;
    std::uint32_t servers = 0;  ///< of a parameter server; 0: one on each worker
  };
  struct Wanted {
    std::uint32_t workers = 1;
    Resources per_worker;
    std::map<std::string, std::string> labels;  ///< a node without one of them gets no worker
    Placement placement = Placement::pack;
    std::int32_t priority = 0;
    RoleGroups groups = {};  ///< all processes of the job: the workers, and the servers that its mode needs
  };
  struct ResumeFrom {
    std::string job_id;
    std::optional<std::uint64_t> step;  ///< none: the newest
  };

  std::string name;
  Choice model;
  Dataset dataset;
  Training training;
  Compression compression;
  Exchange exchange;
  Wanted resources;
  std::uint64_t evaluate_every_steps = 0;    ///< 0: only at the end
  std::uint64_t checkpoint_every_steps = 0;  ///< 0: only at the end and when stopped
  std::uint32_t checkpoints_kept = 3;
  std::optional<ResumeFrom> resume_from;
  std::uint32_t restarts_max = 0;
};

/// The schema of a job spec, without the catalog's part.
const nlohmann::json& job_spec_schema();

/// Checks a job spec against the schema and the catalog (what `weir-worker catalog` prints) and completes it in place:
/// defaults, the catalog's parameter defaults, the job's name, the compressor's memory. Returns all problems found; if
/// there are none, the spec is normalized.
std::vector<Problem> normalize_job_spec(nlohmann::json& spec, const nlohmann::json& catalog);

/// Reads a normalized spec. Fails with: malformed (it is not normalized; the context says where).
Result<JobSpec> parse_job_spec(const nlohmann::json& spec);

}  // namespace weir::protocol
