#pragma once

namespace weir::worker {

/// Prints what this program computes on: LibTorch's version, the CUDA that it is for, and the devices that it finds
/// here; as JSON in one line, cuDNN and NCCL too. Returns 0 if there is more than the processor, else 1.
int print_devices(bool as_json);

}  // namespace weir::worker
