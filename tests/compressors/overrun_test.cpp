// Compressors touch no memory behind what is theirs. Every array that ends at a page's end has a page behind it that
// ends the program when it is touched. Sanitizers do not see everything: a compiler that makes vectors of a loop may
// read along what the loop does not, and does so only where no sanitizer watches.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

#include "compressors/flat.hpp"
#include "tests/compressors/support.hpp"

namespace {

std::atomic<bool> guarding = false;

/// Pages for guarded arrays, none of which is used twice. An array has a page before it with its size, and behind it
/// one that nobody may touch.
struct Pages {
  static constexpr std::size_t all = std::size_t{1} << 36;  // of addresses
  static constexpr std::size_t page = 4096;

  static std::byte* begin() {
    static auto* const reserved =
        static_cast<std::byte*>(::mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    return reserved;
  }

  static bool has(const void* at) { return at >= begin() && at < begin() + all; }

  static void* take(std::size_t bytes) {
    static std::atomic<std::size_t> used = 0;
    const std::size_t pages = (bytes + page - 1) / page;
    const std::size_t first = used.fetch_add((pages + 2) * page);
    std::byte* const at = begin() + first;
    if (first + (pages + 2) * page > all || ::mprotect(at, (pages + 1) * page, PROT_READ | PROT_WRITE) != 0) {
      throw std::bad_alloc();
    }
    std::memcpy(at, &pages, sizeof pages);
    return at + (pages + 1) * page - bytes;
  }

  static void give_back(void* at) {
    const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(at) - begin());
    std::byte* const first = begin() + offset / page * page - page;
    std::size_t pages = 0;
    std::memcpy(&pages, first, sizeof pages);
    ::mmap(first, (pages + 1) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
};

void* allocate(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
  constexpr std::size_t small = 32;  // nodes of lists and maps
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (guarding && rounded > small) return Pages::take(rounded);
  void* memory = nullptr;
  if (::posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes) != 0) throw std::bad_alloc();
  return memory;
}

void release(void* memory) {
  if (memory != nullptr && Pages::has(memory)) return Pages::give_back(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace weir::compressors::test {
namespace {

class Guarding {
 public:
  Guarding() { guarding = true; }
  ~Guarding() { guarding = false; }
};

/// A tensor whose last entry is the last before a page that nobody may touch.
class Guarded {
 public:
  explicit Guarded(const at::Tensor& values) : memory_(static_cast<std::size_t>(values.numel())) {
    std::memcpy(memory_.data(), values.contiguous().data_ptr(), memory_.size() * sizeof(float));
    tensor = at::from_blob(memory_.data(), values.sizes(), at::TensorOptions(at::kFloat));
  }

  at::Tensor tensor;

 private:
  std::vector<float> memory_;
};

class Overrun : public ::testing::TestWithParam<Case> {};

TEST_P(Overrun, NothingBehindAnArrayIsTouched) {
  // Multiples of four entries, so that arrays of floats end where their memory does.
  const std::vector<std::vector<std::int64_t>> shapes{{52, 24}, {24, 52}, {12, 3, 5, 8}, {4, 1036}, {1028, 4}, {260}};
  const Guarding guards;
  for (const auto& shape : shapes) {
    const auto compressor = GetParam().make();
    for (std::uint64_t step = 0; step < 2; ++step) {
      const Round round = last_pass(*compressor, round_at(step));
      const Guarded gradient(at::randn(shape));
      const Bytes made = encoded(*compressor, gradient.tensor, round_at(step));
      const Bytes payload(made.begin(), made.end());  // ends where its memory does
      Guarded sum(at::zeros(shape));
      ASSERT_TRUE(compressor->decode_add(payload, round, 0.5F, sum.tensor));
      if (compressor->traits().passes.back() == Reduction::gather) {
        const std::vector<BytesView> payloads(2, payload);
        ASSERT_TRUE(compressor->decode_add_ranks(payloads, round, 0.25F, sum.tensor));
      }
      compressor->conclude(sum.tensor, round).value();
      if (!compressor->traits().sparse) continue;
      Selection entries;
      ASSERT_TRUE(compressor->read_entries(payload, round, entries_of(gradient.tensor.sizes()), entries));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Overrun, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name + "_" + std::to_string(info.index); });

TEST(OverrunDeathTest, ReadingBehindAnArrayEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto read_behind = [] {
    const Guarding guards;
    std::vector<float> array(64);
    const volatile float* const end = array.data() + array.size();
    return *end;
  };
  EXPECT_EXIT(read_behind(), ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace weir::compressors::test
