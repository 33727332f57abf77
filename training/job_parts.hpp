#pragma once

#include <cstdint>
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

/// Of the names, shapes and values of a model's parameters. Buffers have no part in it: after a restart each rank has
/// its own.
std::uint64_t hash_of(std::span<const NamedTensor> parameters);

/// Checks that all ranks of a group exchange in the same way. It comes before anything else that they exchange: of
/// ranks with different topologies, one may wait for a message within its host while another waits for one from
/// elsewhere, and what is sent within hosts does not say which operation it belongs to. Blocks. Fails with: conflict
/// (names a rank that differs, and in what), and with what the group fails with.
Result<void> expect_same_settings(collectives::Fabric& fabric, const protocol::JobSpec& spec);

/// Checks that all ranks of a group have the same settings and begin with the same parameters, given by their hash.
/// Blocks. Fails with: conflict (names a rank that differs), and with what the group fails with.
Result<void> expect_same_job(collectives::Fabric& fabric, const protocol::JobSpec& spec, std::uint64_t parameters);

}  // namespace weir::training
