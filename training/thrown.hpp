#pragma once

#include <exception>
#include <string>

namespace weir::training {

/// What LibTorch says, in one line of printable characters: a traceback of TorchScript ends with its reason, other
/// messages begin with it.
std::string reason_of(const std::exception& thrown);

}  // namespace weir::training
