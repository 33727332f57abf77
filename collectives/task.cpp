#include "collectives/task.hpp"

#include <array>
#include <new>
#include <utility>

namespace weir::collectives {
namespace {

constexpr std::size_t class_bytes = 128;
constexpr std::size_t classes = 64;  ///< larger frames come from the heap

/// A frame that is not in use.
struct Free {
  Free* next;
};

/// Frames that are not in use, by size in steps of class_bytes.
struct FramePool {
  ~FramePool() {
    for (Free* frame : first) {
      while (frame != nullptr) ::operator delete(std::exchange(frame, frame->next));
    }
  }
  std::array<Free*, classes> first{};
};

thread_local FramePool pool;

std::size_t class_of(std::size_t bytes) { return (bytes + class_bytes - 1) / class_bytes; }

}  // namespace

void* take_task_frame(std::size_t bytes) {
  const std::size_t index = class_of(bytes);
  if (index >= classes) return ::operator new(bytes);
  Free* frame = pool.first[index];
  if (frame == nullptr) return ::operator new(index* class_bytes);
  pool.first[index] = frame->next;
  return frame;
}

void give_task_frame(void* frame, std::size_t bytes) noexcept {
  const std::size_t index = class_of(bytes);
  if (index >= classes) {
    ::operator delete(frame);
    return;
  }
  pool.first[index] = new (frame) Free{pool.first[index]};
}

}  // namespace weir::collectives
