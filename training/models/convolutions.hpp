#pragma once

namespace weir::training {

/// Has LibTorch compute convolutions on processors without oneDNN, which is slower, if that computes them wrongly, and
/// returns whether it does. Found out once in a process, by a small convolution. Thread-safe.
///
/// oneDNN puts channels into blocks of 16. Version 3.7.2 as Debian 13 has it fills up the last block of the input
/// channels with whatever the memory held before, if there are several blocks: a convolution of 20 channels, such as
/// LeNet's second one, is wrong without an error, or not a number.
bool leaves_out_onednn();

}  // namespace weir::training
