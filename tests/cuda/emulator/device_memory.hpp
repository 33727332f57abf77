#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace weir::emulator {

/// The memory of the emulated device. It has addresses that the host cannot touch, so that code which takes them for
/// its own ends with a signal; the device's work can, while it is done (Access). Used with the device's mutex held.
class DeviceMemory {
 public:
  static DeviceMemory& get();

  /// Null if there is no room: of as many bytes as the variable WEIR_EMULATED_GPU_BYTES says, if it is set.
  std::byte* allocate(std::size_t bytes);
  void free(std::byte* at);

  /// Where the host finds what is at an address of the device.
  std::byte* on_host(const void* at) const;

 private:
  friend class Access;
  struct Place {
    std::size_t room = 0;
    std::size_t bytes = 0;
  };

  DeviceMemory();

  std::byte* device_ = nullptr;
  std::byte* host_ = nullptr;
  unsigned accesses_ = 0;
  std::size_t end_ = 0;
  std::size_t used_ = 0;
  std::map<std::size_t, std::vector<std::size_t>> free_;  ///< places by their room
  std::map<std::size_t, Place> places_;                   ///< those in use
};

/// As long as one exists, the device's addresses can be touched. With the device's mutex held.
class Access {
 public:
  Access();
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

}  // namespace weir::emulator
