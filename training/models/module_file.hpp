#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace torch::jit {
struct Module;
}

namespace weir::training {

/// Reads a module that somebody has saved as TorchScript. LibTorch compiles the code in the file, and runs what of it a
/// module asks for while it is read; so this may take any time. The operations that open files are taken from the
/// TorchScript of this process, for good: code that names them is refused. Every tensor must lie within the memory that
/// was read for it, which LibTorch takes the file's word for. Thread-safe. Fails with: malformed.
Result<torch::jit::Module> read_module(const Segment& bytes);

}  // namespace weir::training
