#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

struct CUstream_st;

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

/// What one thread at a time does with the device: several may use it, each for a rank of its own.
std::recursive_mutex& device_mutex();

/// Puts work into a stream (null: the default one). When its turn has come it is attempted until `attempt`, which is
/// called with the device's mutex held, returns true.
void enqueue(CUstream_st* stream, std::function<bool()> attempt);

/// Which stream's work comes first.
enum class Order { newest, oldest, any };

/// As long as one exists, work in streams is done only while somebody asks for an event or waits. A stream keeps its
/// order; work that does not wait for what another stream has to do before it may overtake that, and does if its own
/// stream comes first.
class Deferred {
 public:
  explicit Deferred(Order first);
  ~Deferred();
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
};

/// How often this thread has called what blocks until work in streams has been done.
std::uint64_t waits_of_this_thread();

/// Does work until `done`, which is called with the device's mutex held, returns true. A wait of this thread.
void wait_until(const std::function<bool()>& done);

/// Waits for all work that is in the stream now.
void drain(CUstream_st* stream);

/// Whether work is deferred.
bool defers();

}  // namespace weir::emulator
