#pragma once

#include <cstddef>
#include <string>

namespace weir::emulator {

/// Behind shared memory, and on both sides of an allocation.
inline constexpr std::size_t redzone_bytes = 256;

/// Ends the process with a sentence about the kernel or its caller.
[[noreturn]] void fail(const std::string& sentence);

/// Fills memory with what a reader notices: every float in it is NaN.
void poison(void* at, std::size_t bytes);

/// Marks bytes that nobody may access, also for AddressSanitizer; check_redzone() fails if they were written all the
/// same, and opens them again.
void make_redzone(void* at, std::size_t bytes);
void check_redzone(void* at, std::size_t bytes, const std::string& of);

}  // namespace weir::emulator
