#include "collectives/ring.hpp"

#include <algorithm>
#include <string>

#include "base/ensure.hpp"
#include "base/errc.hpp"

namespace weir::collectives {
namespace {

/// The ring's arithmetic: neighbours, and the chunks an array is cut into, one per rank and equal to within
/// one element.
struct Ring {
  std::uint32_t rank;
  std::uint32_t size;

  std::uint32_t next() const { return (rank + 1) % size; }
  std::uint32_t previous() const { return (rank + size - 1) % size; }
  /// The rank (or chunk) `steps` places before this rank, for steps <= size.
  std::uint32_t before(std::uint32_t steps) const { return (rank + size - steps) % size; }

  std::size_t chunk_begin(std::uint32_t chunk, std::size_t count) const {
    return count / size * chunk + std::min<std::size_t>(chunk, count % size);
  }
  std::size_t chunk_size(std::uint32_t chunk, std::size_t count) const {
    return chunk_begin(chunk + 1, count) - chunk_begin(chunk, count);
  }
  template <class Number>
  std::span<Number> chunk(std::uint32_t chunk, std::span<Number> values) const {
    return values.subspan(chunk_begin(chunk, values.size()), chunk_size(chunk, values.size()));
  }
};

/// to += from. Blocks of a fixed length, so that the compiler uses vector registers at -O2 as well.
void add(std::span<const float> from, std::span<float> to) {
  constexpr std::size_t block = 32;
  float* __restrict sum = to.data();
  const float* __restrict addend = from.data();
  const std::size_t count = to.size();
  std::size_t i = 0;
  for (; i + block <= count; i += block) {
    for (std::size_t j = 0; j < block; ++j) sum[i + j] += addend[i + j];
  }
  for (; i < count; ++i) sum[i] += addend[i];
}

/// The operations of all_reduce(): combine(from, to) replaces each element of `to` by the combination of both.
struct Sum {
  template <class Number>
  void operator()(std::span<const Number> from, std::span<Number> to) const {
    add(from, to);
  }
};
struct Largest {
  void operator()(std::span<const float> from, std::span<float> to) const {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], from[i]);
  }
};

Result<void> expect_length(std::uint64_t message_bytes, std::size_t due_bytes) {
  if (message_bytes == due_bytes) return {};
  return Error{Errc::malformed, "a message of " + std::to_string(message_bytes) + " bytes where " +
                                    std::to_string(due_bytes) + " are due"};
}

/// Combines an arriving chunk with ours, each piece while it is still in the cache.
template <class Number, class Combine>
class Combiner final : public Receiver {
 public:
  void aim_at(std::span<Number> result) { result_ = result; }

  Result<void> begin(std::uint64_t message_bytes) override {
    return expect_length(message_bytes, result_.size_bytes());
  }
  std::span<std::byte> place(std::uint64_t, std::size_t bytes) override {
    if (scratch_.size() * sizeof(Number) < bytes) scratch_.resize((bytes + sizeof(Number) - 1) / sizeof(Number));
    return std::as_writable_bytes(std::span(scratch_)).first(bytes);
  }
  void arrived(std::uint64_t offset, BytesView piece) override {
    ensure(offset % sizeof(Number) == 0 && piece.size() % sizeof(Number) == 0, "a piece splits an element");
    const std::span<const Number> arrived = std::span(scratch_).first(piece.size() / sizeof(Number));
    Combine()(arrived, result_.subspan(offset / sizeof(Number), arrived.size()));
  }

 private:
  std::span<Number> result_;
  std::vector<Number> scratch_;
};

/// Receives a chunk directly into its place.
class Filler final : public Receiver {
 public:
  explicit Filler(std::span<std::byte> into) : into_(into) {}

  Result<void> begin(std::uint64_t message_bytes) override { return expect_length(message_bytes, into_.size()); }
  std::span<std::byte> place(std::uint64_t offset, std::size_t bytes) override { return into_.subspan(offset, bytes); }
  void arrived(std::uint64_t, BytesView) override {}

 private:
  std::span<std::byte> into_;
};

/// Receives a payload of any length up to a limit.
class Collector final : public Receiver {
 public:
  Collector(Bytes& into, std::size_t bytes_max) : into_(into), bytes_max_(bytes_max) {}

  Result<void> begin(std::uint64_t message_bytes) override {
    if (message_bytes > bytes_max_) {
      return Error{Errc::malformed, "a payload of " + std::to_string(message_bytes) + " bytes where at most " +
                                        std::to_string(bytes_max_) + " can be"};
    }
    into_.resize(message_bytes, boost::container::default_init);
    return {};
  }
  std::span<std::byte> place(std::uint64_t offset, std::size_t bytes) override {
    return std::span(into_).subspan(offset, bytes);
  }
  void arrived(std::uint64_t, BytesView) override {}

 private:
  Bytes& into_;
  std::size_t bytes_max_;
};

template <class Combine, class Number>
Result<void> all_reduce(Communicator& group, std::span<Number> values) {
  const Ring ring{group.rank(), group.size()};
  if (ring.size == 1 || values.empty()) return {};

  // Reduce-scatter: chunk c starts at rank c and picks up every rank's share on its way to rank c - 1.
  Combiner<Number, Combine> combiner;
  for (std::uint32_t step = 0; step + 1 < ring.size; ++step) {
    combiner.aim_at(ring.chunk(ring.before(step + 1), values));
    const std::span<Number> outgoing = ring.chunk(ring.before(step), values);
    if (auto r = group.exchange(ring.next(), std::as_bytes(outgoing), ring.previous(), combiner); !r) return r;
  }
  // All-gather: this rank now holds the sum of chunk r + 1 and passes on what it gets.
  const Ring owner{ring.next(), ring.size};
  for (std::uint32_t step = 0; step + 1 < ring.size; ++step) {
    Filler filler(std::as_writable_bytes(owner.chunk(owner.before(step + 1), values)));
    const std::span<Number> outgoing = owner.chunk(owner.before(step), values);
    if (auto r = group.exchange(ring.next(), std::as_bytes(outgoing), ring.previous(), filler); !r) return r;
  }
  return {};
}

}  // namespace

Result<void> ring_all_reduce(Communicator& group, std::span<float> values) { return all_reduce<Sum>(group, values); }
Result<void> ring_all_reduce(Communicator& group, std::span<Half> values) { return all_reduce<Sum>(group, values); }
Result<void> ring_all_reduce(Communicator& group, std::span<BFloat16> values) { return all_reduce<Sum>(group, values); }
Result<void> ring_all_reduce_max(Communicator& group, std::span<float> values) {
  return all_reduce<Largest>(group, values);
}

Result<void> ring_all_gather(Communicator& group, BytesView own, std::size_t payload_bytes_max,
                             std::vector<Bytes>& gathered) {
  const Ring ring{group.rank(), group.size()};
  if (own.size() > payload_bytes_max) {
    return Error{Errc::invalid_argument, "a payload of " + std::to_string(own.size()) + " bytes exceeds the limit of " +
                                             std::to_string(payload_bytes_max)};
  }
  gathered.resize(ring.size);
  gathered[ring.rank].clear();
  append(gathered[ring.rank], own);
  for (std::uint32_t step = 0; step + 1 < ring.size; ++step) {
    Collector collector(gathered[ring.before(step + 1)], payload_bytes_max);
    if (auto r = group.exchange(ring.next(), gathered[ring.before(step)], ring.previous(), collector); !r) return r;
  }
  return {};
}

std::uint64_t ring_all_reduce_sent_bytes(std::uint32_t rank, std::uint32_t size, std::size_t count,
                                         std::size_t element_bytes) {
  if (size == 1 || count == 0) return 0;
  const Ring ring{rank, size};
  std::uint64_t bytes = 0;
  for (std::uint32_t step = 0; step + 1 < size; ++step) {
    bytes += Communicator::wire_bytes(ring.chunk_size(ring.before(step), count) * element_bytes);
    bytes += Communicator::wire_bytes(ring.chunk_size((ring.before(step) + 1) % size, count) * element_bytes);
  }
  return bytes;
}

}  // namespace weir::collectives
