#include "collectives/reduce.hpp"

#include <algorithm>

#include "base/ensure.hpp"
#include "base/half.hpp"
#include "base/processor.hpp"

namespace weir::collectives {

std::string_view name_of(Element element) {
  if (element == Element::float32) return "float32";
  return element == Element::float16 ? "float16" : "bfloat16";
}

namespace {

template <class Number>
std::span<const Number> numbers(BytesView bytes) {
  ensure(bytes.size() % sizeof(Number) == 0 && reinterpret_cast<std::uintptr_t>(bytes.data()) % sizeof(Number) == 0,
         "bytes that are no whole, aligned numbers");
  return {reinterpret_cast<const Number*>(bytes.data()), bytes.size() / sizeof(Number)};
}
template <class Number>
std::span<Number> numbers(std::span<std::byte> bytes) {
  const std::span<const Number> view = numbers<Number>(BytesView(bytes));
  return {const_cast<Number*>(view.data()), view.size()};
}

using weir::add;
using weir::to_float;
float to_float(float value) { return value; }
float from_float(float value, float) { return value; }
Half from_float(float value, Half) { return to_half(value); }
BFloat16 from_float(float value, BFloat16) { return to_bfloat16(value); }

[[gnu::always_inline]] inline void add_loop(const float* __restrict from, std::size_t count, float* __restrict to) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

void add_portable(const float* from, std::size_t count, float* to) { add_loop(from, count, to); }
#if defined(__x86_64__)
WEIR_AVX2 void add_avx2(const float* from, std::size_t count, float* to) { add_loop(from, count, to); }
#endif

/// to += from.
void add(std::span<const float> from, std::span<float> to) {
#if defined(__x86_64__)
  if (has_avx2()) return add_avx2(from.data(), to.size(), to.data());
#endif
  add_portable(from.data(), to.size(), to.data());
}

/// Calls `work` with a value of the type that `element` names.
template <class Work>
void with_numbers_of(Element element, const Work& work) {
  if (element == Element::float32) return work(float());
  if (element == Element::float16) return work(Half());
  work(BFloat16());
}

/// Replaces each value by `change` of it.
template <class Change>
void each(Element element, std::span<std::byte> values, const Change& change) {
  with_numbers_of(element, [&](auto kind) {
    for (auto& value : numbers<decltype(kind)>(values)) {
      value = from_float(change(to_float(value)), kind);
    }
  });
}

float sign_of(float value) { return static_cast<float>((value > 0) - (value < 0)); }

}  // namespace

void prepare(ReduceOp op, Element element, std::span<std::byte> values, std::uint32_t ranks) {
  if (op == ReduceOp::majority) each(element, values, sign_of);
  if (op == ReduceOp::mean && element != Element::float32) {
    const float share = 1 / static_cast<float>(ranks);
    each(element, values, [share](float value) { return share * value; });
  }
}

void combine(ReduceOp op, Element element, BytesView from, std::span<std::byte> to) {
  with_numbers_of(element, [&](auto kind) {
    using Number = decltype(kind);
    const auto arrived = numbers<Number>(from);
    const auto result = numbers<Number>(to);
    if (op != ReduceOp::min && op != ReduceOp::max) return add(arrived, result);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const bool replace =
          op == ReduceOp::min ? to_float(arrived[i]) < to_float(result[i]) : to_float(arrived[i]) > to_float(result[i]);
      if (replace) result[i] = arrived[i];
    }
  });
}

void conclude(ReduceOp op, Element element, std::span<std::byte> values, std::uint32_t ranks) {
  if (op == ReduceOp::majority) each(element, values, sign_of);
  if (op == ReduceOp::mean && element == Element::float32) {
    const float share = 1 / static_cast<float>(ranks);
    each(element, values, [share](float value) { return share * value; });
  }
}

}  // namespace weir::collectives
