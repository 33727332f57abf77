#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cuda/kernels/report.hpp"
#include "cuda/memory.hpp"
#include "cuda/stream.hpp"

// What the tests of kernels share. They know no CUDA, so the same file runs on the emulator and on a device.

namespace weir::cuda {

inline constexpr std::array<std::size_t, 12> sizes = {0, 1, 31, 32, 33, 1023, 1024, 1025, 4095, 4096, 4097, 100'003};

/// An array in the device's memory. Lies `skew` entries behind an aligned address, in an allocation that ends with it.
template <class T>
class Array {
 public:
  explicit Array(std::size_t size, std::size_t skew = 0)
      : size_(size), skew_(skew), memory_(Memory::allocate((skew + size) * sizeof(T)).value()) {}
  explicit Array(std::span<const T> values, std::size_t skew = 0) : Array(values.size(), skew) {
    std::vector<T> all(skew);
    all.insert(all.end(), values.begin(), values.end());
    memory_.copy_from_host(std::as_bytes(std::span(all)), nullptr).value();
  }

  T* data() const { return size_ == 0 ? nullptr : reinterpret_cast<T*>(memory_.data()) + skew_; }

  /// The first `count` entries, or all. Waits for the default stream, where the tests put all work.
  std::vector<T> read() const { return read(size_); }
  std::vector<T> read(std::size_t count) const {
    std::vector<T> values(count);
    memory_.copy_to_host(std::as_writable_bytes(std::span(values)), nullptr, skew_ * sizeof(T)).value();
    return values;
  }

 private:
  std::size_t size_;
  std::size_t skew_;
  Memory memory_;
};

/// For kernels that take several tensors.
template <class T>
std::span<const T> one(const T& tensor) {
  return {&tensor, 1};
}

/// A Report on the device.
class Reported {
 public:
  Report* at() const { return array_.data(); }
  Report read() const { return array_.read()[0]; }

 private:
  Array<Report> array_{std::vector<Report>(1)};
};

/// What is among the values beside ordinary ones.
enum class Among { nothing, zeros, only_zeros, extremes, non_finite };
inline constexpr std::array all_kinds = {Among::nothing, Among::zeros, Among::only_zeros, Among::extremes,
                                         Among::non_finite};

/// Values of many magnitudes; a third are of the given kind, but of those that are not finite there is one.
inline std::vector<float> some_values(std::size_t n, Among among, unsigned seed = 1) {
  std::mt19937 generator(seed + static_cast<unsigned>(n));
  const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) {
    const std::uint32_t sign = random() << 31;
    value = normal(generator) * std::ldexp(1.0F, static_cast<int>(random() % 12) - 10);
    if (among == Among::only_zeros || (among == Among::zeros && random() % 3 == 0)) value = std::bit_cast<float>(sign);
    if (among == Among::extremes && random() % 3 == 0) {
      const std::uint32_t tiny = random() >> 9;  // a denormal
      const std::uint32_t huge = 0x7F000000U + (random() >> 9);
      value = std::bit_cast<float>(sign | (random() % 2 == 0 ? tiny : huge));
    }
  }
  if (among == Among::non_finite && n > 0) {
    constexpr float infinite = std::numeric_limits<float>::infinity();
    const std::array<float, 3> bad = {infinite, -infinite, std::numeric_limits<float>::quiet_NaN()};
    values[random() % n] = bad[random() % 3];
  }
  return values;
}

/// For a message: of which case a failure is.
inline std::string named(std::size_t n, Among among) {
  return std::to_string(n) + " values of kind " + std::to_string(static_cast<int>(among));
}

/// That two arrays have the same bits: zeros of different signs differ. One NaN is as good as another: which bits it
/// has is the processor's choice.
template <class T>
testing::AssertionResult same_bits(const std::vector<T>& found, const std::vector<T>& due) {
  if (found.size() != due.size()) return testing::AssertionFailure() << found.size() << " for " << due.size();
  for (std::size_t i = 0; i < due.size(); ++i) {
    if (std::memcmp(&found[i], &due[i], sizeof(T)) == 0) continue;
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(found[i]) && std::isnan(due[i])) continue;
    }
    auto failure = testing::AssertionFailure() << "at " << i;
    if constexpr (std::is_arithmetic_v<T>) failure << ": " << found[i] << " for " << due[i];
    if constexpr (std::is_same_v<T, std::byte>) {
      failure << ": " << static_cast<int>(found[i]) << " for " << static_cast<int>(due[i]);
    }
    return failure;
  }
  return testing::AssertionSuccess();
}

}  // namespace weir::cuda
