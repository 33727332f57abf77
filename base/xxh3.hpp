#pragma once

// XXH3 of much data: with the library's loops for the processor that is found at run time, which take a quarter of the
// time of those that every processor has.
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif
