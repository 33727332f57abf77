// What clang-tidy reads before all else (`make lint`). LibTorch 1.13's headers use std::vector<c10::IValue> while
// IValue is incomplete. That was never valid and always worked, until C++20 made the functions of std::vector
// constexpr, which clang instantiates at once. So std::vector alone is not constexpr here; nothing built from this
// would link.
#pragma once

#include <string>  // and all that std::vector is made of, which stays as it is

#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_a1_of_bits  // has been declared constexpr by now
#include <vector>
#undef __fill_a1
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr
