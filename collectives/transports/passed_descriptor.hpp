#pragma once

#include "base/descriptor.hpp"

namespace weir::collectives {

/// Passes a descriptor on to the other side of a Unix socket, with one byte. Whether there was room for it.
bool pass_descriptor(int socket, int descriptor);

/// The descriptor that the other side of a Unix socket has passed on with its next byte; none if there is none. The
/// other side is not trusted: of several descriptors the first is taken, and the others are closed.
Descriptor take_descriptor(int socket);

}  // namespace weir::collectives
