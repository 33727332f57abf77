#pragma once

#include <span>

#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "compressors/catalog.hpp"
#include "protocol/job_spec.hpp"
#include "training/models/model.hpp"

namespace weir::training {

// What every rank of a job makes or checks in the same way.

/// The compressor and the memory that a job names. Fails with: not_found, invalid_argument.
Result<compressors::Compression> make_compression(const protocol::JobSpec& spec);

/// Checks that all ranks of a group have the same settings and begin with the same parameters. Blocks. Fails with:
/// conflict (names a rank that differs), and with what the group fails with.
Result<void> expect_same_job(collectives::Fabric& fabric, const protocol::JobSpec& spec,
                             std::span<const NamedTensor> parameters);

}  // namespace weir::training
