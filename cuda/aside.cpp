#include "cuda/aside.hpp"

#include <thread>
#include <utility>

namespace weir::cuda {
namespace {

void carry_out(std::function<void()> work) { work(); }

}  // namespace

Aside::Aside(std::function<void()> work) {
  std::promise<void> end;
  end_ = end.get_future().share();
  std::thread([work = std::move(work), end = std::move(end)]() mutable {
    carry_out(std::move(work));
    end.set_value();
  }).detach();
}

}  // namespace weir::cuda
