#include "cuda/kernels/arithmetic.hpp"

#include "cuda/kernels/batch.cuh"
#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

/// A loop is a Work, which loads what an entry needs and stores what becomes of it, and a Note of the values stored.
template <class Work, class Note>
__global__ void each_kernel(Work work, Note note, std::uint64_t n) {
  note.begin();
  for_each_tile(
      n, typename Work::Loaded{}, [&](std::uint64_t i) { return work.load(i); },
      [&](std::uint64_t i, const typename Work::Loaded& loaded, bool is_entry) {
        if (is_entry) note(work.store(i, loaded));
      });
  note.end();
}

template <class Work, class Note>
Result<void> launch_each(const char* name, const Work& work, const Note& note, std::uint64_t n, StreamHandle stream) {
  if (n == 0) return {};
  return launch(name, each_kernel<Work, Note>, shape_for_each(n, Note::shared_bytes), stream, work, note, n);
}

struct CopyScaled {
  using Loaded = float;
  __device__ float load(std::uint64_t i) const { return from[i]; }
  __device__ float store(std::uint64_t i, float x) const {
    to[i] = factor * x;
    return x;
  }

  float factor;
  const float* from;
  float* to;
};

struct Two {
  float a = 0;
  float b = 0;
};
struct Three {
  float a = 0;
  float b = 0;
  float c = 0;
};

template <bool aligned>
struct AddScaled {
  using Loaded = Two;
  __device__ Two load(std::uint64_t i) const {
    if constexpr (aligned) return {reinterpret_cast<const float*>(from)[i], to[i]};
    std::uint32_t bits = 0;
    for (unsigned k = 0; k < 4; ++k) bits |= static_cast<std::uint32_t>(from[4 * i + k]) << 8 * k;
    return {__uint_as_float(bits), to[i]};
  }
  __device__ float store(std::uint64_t i, const Two& x) const { return to[i] = x.b + weight * x.a; }

  float weight;
  const std::byte* from;
  float* to;
};

struct Residual {
  using Loaded = Two;
  __device__ static Two load(const ResidualOf& of, std::uint64_t i) {
    const float* const before = of.before == nullptr ? of.residual : of.before;
    return {of.gradient[i], before[i]};
  }
  __device__ static float store(const ResidualOf& of, std::uint64_t i, const Two& x) {
    return of.residual[i] = of.beta * x.b + of.gamma * x.a;
  }
};

struct Subtract {
  using Loaded = Two;
  __device__ Two load(std::uint64_t i) const { return {a[i], b[i]}; }
  __device__ float store(std::uint64_t i, const Two& x) const { return difference[i] = x.a - x.b; }

  const float* a;
  const float* b;
  float* difference;
};

/// The new momentum; `scaled` is the gradient's share.
__device__ float momentum_after(const MomentumStep& step, float momentum, float scaled) {
  return step.nesterov ? step.mu * (momentum + scaled) : step.mu * momentum + scaled;
}

struct Momentum {
  using Loaded = Three;
  __device__ static Three load(const MomentumOf& of, std::uint64_t i) {
    return {of.gradient[i], of.momentum[i], of.velocity[i]};
  }
  __device__ static float store(const MomentumOf& of, std::uint64_t i, const Three& x) {
    const float scaled = of.step.scale * x.a;
    const float m = momentum_after(of.step, x.b, scaled);
    of.momentum[i] = m;
    return of.velocity[i] = x.c + (of.step.nesterov ? m + scaled : m);
  }
};

struct ApplyMomentum {
  using Loaded = Two;
  __device__ static Two load(const MomentumAppliedTo& to, std::uint64_t i) { return {to.gradient[i], to.momentum[i]}; }
  __device__ static float store(const MomentumAppliedTo& to, std::uint64_t i, const Two& x) {
    const float scaled = to.step.scale * x.a;
    const float m = momentum_after(to.step, x.b, scaled);
    to.momentum[i] = m;
    return to.gradient[i] = to.step.nesterov ? m + scaled : m;
  }
};

/// A loop that counts in the tensors' bins, if they have some.
template <class Loop, class Of>
Result<void> launch_counting(const char* name, std::span<const Of> tensors, StreamHandle stream) {
  const bool counts = !tensors.empty() && tensors.front().bins != nullptr;
  for (const Of& of : tensors) ensure((of.bins != nullptr) == counts, "bins for all tensors or for none");
  return counts ? launch_each<Loop, NoteBins>(name, tensors, stream)
                : launch_each<Loop, NoteNothing>(name, tensors, stream);
}

}  // namespace

Result<void> copy_scaled(float factor, const float* from, float* to, std::uint64_t n, Report* report,
                         StreamHandle stream) {
  return launch_each("copy_scaled", CopyScaled{factor, from, to}, NoteLargest{.report = report}, n, stream);
}

Result<void> add_scaled(float weight, const std::byte* from, float* to, std::uint64_t n, StreamHandle stream) {
  if (reinterpret_cast<std::uintptr_t>(from) % alignof(float) == 0) {
    return launch_each("add_scaled", AddScaled<true>{weight, from, to}, NoteNothing{}, n, stream);
  }
  return launch_each("add_scaled", AddScaled<false>{weight, from, to}, NoteNothing{}, n, stream);
}

Result<void> accumulate_residual(std::span<const ResidualOf> tensors, StreamHandle stream) {
  return launch_counting<Residual>("accumulate_residual", tensors, stream);
}

Result<void> subtract(const float* a, const float* b, float* difference, std::uint64_t n, StreamHandle stream) {
  return launch_each("subtract", Subtract{a, b, difference}, NoteNothing{}, n, stream);
}

Result<void> accumulate_momentum(std::span<const MomentumOf> tensors, StreamHandle stream) {
  return launch_counting<Momentum>("accumulate_momentum", tensors, stream);
}

Result<void> apply_momentum(std::span<const MomentumAppliedTo> tensors, StreamHandle stream) {
  return launch_each<ApplyMomentum, NoteNothing>("apply_momentum", tensors, stream);
}

}  // namespace weir::cuda
