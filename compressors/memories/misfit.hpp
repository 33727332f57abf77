#pragma once

#include <optional>
#include <string>

#include "compressors/compressor.hpp"
#include "compressors/memory.hpp"

namespace weir::compressors {

/// The reason why error feedback (a residual of what was not sent) does not fit this compressor; nothing if it fits.
std::optional<std::string> no_residual(const Compressor& compressor);

/// The same for error feedback that also uses the mean which the ranks agree on.
std::optional<std::string> no_mean_residual(const Compressor& compressor);

/// Whether owners of shares, who encode the mean of what they gather again, keep what that leaves out and send it with
/// the next one: where payloads are gathered, and a residual fits.
bool owners_keep_residual(const Compressor& compressor);

/// The reason why a compressor does not fit an exchange in which the owners of shares encode the mean of what they
/// gather again; nothing if it fits.
std::optional<std::string> no_owners(const Traits& compressor);

/// The same where the owners of regions add up the entries that were chosen there.
std::optional<std::string> no_regions(const Traits& compressor);

/// The reason why a compressor does not fit an exchange by hops, in which each rank encodes sums of what several ranks
/// have, and the rank that encodes keeps what that leaves out; nothing if it fits. Every memory that fits a compressor
/// does so there, too: all that it gives is sent.
std::optional<std::string> no_hops(const Compressor& compressor);

/// The reason why a compressor or a memory does not fit where the ranks exchange by how much their models differ from
/// the last common one; nothing if it fits. Each rank's optimizer has applied its momentum by then, and the mean has to
/// have the size of the differences.
std::optional<std::string> no_differences(const Traits& compressor);
std::optional<std::string> no_differences(const MemoryTraits& memory);

/// The same where each rank takes what its neighbours send, each on its own, as what it stands for.
std::optional<std::string> no_neighbours(const Compressor& compressor);

/// The reason why a compressor or a memory does not fit where workers push gradients to servers; nothing if it fits.
/// What a worker sends is applied without that of the others, and a server sends differences of models through the same
/// compressor.
std::optional<std::string> no_pushes(const Traits& compressor);
std::optional<std::string> no_pushes(const MemoryTraits& memory);

}  // namespace weir::compressors
