#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "training/models/model.hpp"
#include "training/servers/messages.hpp"

namespace weir::training::servers {

// What a server tells the first one of its part of the model, uncompressed, when the whole is to be evaluated or saved.

/// Its tensors, as numbers one after the other.
Bytes part_of(std::span<const NamedTensor> tensors);

/// Takes such a message, of these parameters, into the model. Fails with: malformed (too short or too long).
Result<void> take_part(Reader& body, Model& model, std::span<const std::uint32_t> parameters);

}  // namespace weir::training::servers
