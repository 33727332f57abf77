#pragma once

#include <exception>
#include <string>

#include "base/result.hpp"

namespace weir::training {

struct OwnGpu;

/// What LibTorch says, in one line of printable characters: a traceback of TorchScript ends with its reason, other
/// messages begin with it.
std::string reason_of(const std::exception& thrown);

/// The same as an error: exhausted if a device has too little memory (too_little_memory), else internal.
Error error_of(const std::exception& thrown);

/// That a GPU has too little memory for `what`, as LibTorch has said by what it has thrown: how much was wanted, how
/// much there is, and what to try. `instead`: what else needs less, as "training.batch_size 32"; or empty. Exhausted.
Error too_little_memory(const OwnGpu& gpu, const std::string& what, const std::exception& thrown,
                        const std::string& instead = {});

}  // namespace weir::training
