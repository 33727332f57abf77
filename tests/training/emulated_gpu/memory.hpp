#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace weir::testing {

/// The memory of a device that is none. It has addresses that the host cannot touch, so that code which takes them for
/// its own ends with a signal; only the device's operations know where else the bytes are.
class DeviceMemory {
 public:
  static DeviceMemory& get();

  /// Null if there is no room: of as many bytes as the variable WEIR_EMULATED_GPU_BYTES says, if it is set.
  void* allocate(std::size_t bytes);
  void free(void* at);

  /// Where the host finds what is at an address of the device.
  std::byte* on_host(const void* at) const;

 private:
  DeviceMemory();

  std::byte* device_ = nullptr;
  std::byte* host_ = nullptr;
  std::mutex mutex_;
  std::size_t end_ = 0;
  std::size_t used_ = 0;
  std::map<std::size_t, std::vector<std::size_t>> free_;  ///< places by their size
  std::map<std::size_t, std::size_t> sizes_;              ///< of places in use
};

}  // namespace weir::testing
