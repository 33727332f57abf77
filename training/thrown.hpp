#pragma once

#include <exception>
#include <string>

#include "base/result.hpp"

namespace weir::training {

/// What LibTorch says, in one line of printable characters: a traceback of TorchScript ends with its reason, other
/// messages begin with it.
std::string reason_of(const std::exception& thrown);

/// The same as an error: exhausted if a device has too little memory, else internal.
Error error_of(const std::exception& thrown);

}  // namespace weir::training
