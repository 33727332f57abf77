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

/// Which stream's work comes first; `needed`: of the stream that somebody waits for, and nothing but what that needs.
enum class Order { newest, oldest, any, needed };

/// As long as one exists, work in streams is done only while somebody asks for an event or waits. A stream keeps its
/// order; work that does not wait for what another stream has to do before it may overtake that, and does if its own
/// stream comes first. Another one within it counts as long as it exists.
class Deferred {
 public:
  explicit Deferred(Order first);
  ~Deferred();
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;

 private:
  const bool was_deferred_;
  const Order first_before_;
};

/// How often this thread has called what blocks until work in streams has been done.
std::uint64_t waits_of_this_thread();

/// Does work until `done`, which is called with the device's mutex held, returns true. A wait of this thread.
void wait_until(const std::function<bool()>& done);

/// Waits for all work that is in the stream now. As a part of the device's own work it is no wait of this thread.
void drain(CUstream_st* stream);
void catch_up(CUstream_st* stream);

/// How many kernels have been launched.
std::uint64_t launches();
void count_launch();

/// How many bytes have been copied from the device to the host, or the other way, as far as the device was told to.
std::uint64_t bytes_to_host();
std::uint64_t bytes_to_device();
void count_to_host(std::size_t bytes);
void count_to_device(std::size_t bytes);

/// Whether work is deferred.
bool defers();

}  // namespace weir::emulator
