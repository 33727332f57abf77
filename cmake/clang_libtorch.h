// What clang reads before all else (`make lint`, `make fuzz`). LibTorch 1.13's headers use std::vector<c10::IValue> while
// IValue is incomplete. That was never valid and always worked, until C++20 made the functions of std::vector
// constexpr, which clang instantiates at once. So std::vector alone is not constexpr here; to the linker it is the same.
#pragma once

#include <string>  // and all that std::vector is made of, which stays as it is

#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_a1_of_bits  // has been declared constexpr by now
#include <vector>
#undef __fill_a1
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr

// What <vector> has defined under another name, for the linker.
__attribute__((weak, used)) void fill_bits(std::_Bit_iterator first, std::_Bit_iterator last,
                                           const bool& value) asm("_ZSt9__fill_a1St13_Bit_iteratorS_RKb");
void fill_bits(std::_Bit_iterator first, std::_Bit_iterator last, const bool& value) {
  std::__fill_a1_of_bits(first, last, value);
}
