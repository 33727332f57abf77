#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/fabric.hpp"
#include "collectives/topologies/ring.hpp"
#include "cuda/device.hpp"
#include "cuda/memory.hpp"
#include "cuda/nccl.hpp"
#include "cuda/stream.hpp"
#include "tests/collectives/values.hpp"

namespace weir::cuda::testing {

// What Nccl promises, as one rank sees it: functions that all ranks call at the same time, each on a thread of its own
// or in a process of its own. On the emulator and on GPUs.

using collectives::Buffer;
using collectives::ConstBuffer;
using collectives::Element;
using collectives::Gathered;
using collectives::ReduceOp;
using collectives::Subject;
using collectives::Task;

/// A rank with NCCL, on the thread of its test.
struct OneRank {
  collectives::Fabric& fabric;
  Nccl& nccl;
  std::int32_t gpu = 0;

  std::uint32_t rank() const { return fabric.rank(); }
  std::uint32_t ranks() const { return fabric.size(); }
  Result<void> run(const std::function<Task<>()>& make) const { return fabric.thread().run(make); }
};

inline void expect_done(const Result<void>& result) { EXPECT_TRUE(result) << result.error().message(); }

/// Values in the GPU's memory, whose stream has still to write them when this has been made.
template <class Number>
class OnDevice {
 public:
  explicit OnDevice(const OneRank& rank, const std::vector<Number>& values)
      : gpu_(rank.gpu),
        count_(values.size()),
        stream_(Stream::make().value()),
        memory_(Memory::allocate(std::max<std::size_t>(count_ * sizeof(Number), 1)).value()) {
    memory_.copy_from_host(std::as_bytes(std::span(values)), stream_.handle()).value();
  }
  ~OnDevice() { (void)stream_.wait(); }

  Buffer buffer(Element element) const {
    return {.bytes = {memory_.data(), count_ * sizeof(Number)},
            .element = element,
            .device = {.gpu = gpu_, .stream = stream_.handle()}};
  }
  std::vector<Number> read() const {
    std::vector<Number> values(count_);
    memory_.copy_to_host(std::as_writable_bytes(std::span(values)), stream_.handle()).value();
    stream_.wait().value();
    return values;
  }

 private:
  const std::int32_t gpu_;
  const std::size_t count_;
  const Stream stream_;
  const Memory memory_;
};

/// Small integers of either sign, so that no order of additions and no format rounds them.
template <class Number>
std::vector<Number> small_numbers(std::uint32_t rank, std::size_t count) {
  std::vector<Number> values;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>((i * 7 + rank * 5 + 3) % 17) - 8;
    values.push_back(collectives::testing::from(value, Number()));
  }
  return values;
}

inline constexpr std::size_t counts[] = {0, 1, 2, 7, 33, 1000, 5001};

template <class Number>
void expect_combined(const OneRank& rank, const std::vector<Number>& values, ReduceOp op, std::size_t first,
                     std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    std::vector<double> of_element;
    for (std::uint32_t r = 0; r < rank.ranks(); ++r) {
      of_element.push_back(collectives::testing::number(small_numbers<Number>(r, i + 1).back()));
    }
    const double due = collectives::testing::combined(op, of_element);
    ASSERT_NEAR(collectives::testing::number(values[i]), due, op == ReduceOp::mean ? 0.04 : 0)
        << "element " << i << ", operator " << static_cast<int>(op);
    if (i > 100) i += 97;  // some of those that are left
  }
}

template <class Number>
void reduces(const OneRank& rank, Element element) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max}) {
    for (const std::size_t count : counts) {
      const OnDevice<Number> values(rank, small_numbers<Number>(rank.rank(), count));
      expect_done(rank.run([&] { return rank.nccl.all_reduce(values.buffer(element), op, {.version = count}); }));
      expect_combined(rank, values.read(), op, 0, count);
    }
  }
}

inline void reduces_all_types(const OneRank& rank) {
  reduces<float>(rank, Element::float32);
  reduces<Half>(rank, Element::float16);
  reduces<BFloat16>(rank, Element::bfloat16);
}

inline void scatters_reduced_chunks(const OneRank& rank) {
  for (const std::size_t count : counts) {
    const OnDevice<float> values(rank, small_numbers<float>(rank.rank(), count));
    const Buffer whole = values.buffer(Element::float32);
    expect_done(rank.run([&] { return rank.nccl.reduce_scatter(whole, ReduceOp::sum, {.version = count}); }));
    const Buffer own = collectives::chunk_of(whole, rank.ranks(), rank.rank());
    const auto first = static_cast<std::size_t>(own.bytes.data() - whole.bytes.data()) / sizeof(float);
    expect_combined(rank, values.read(), ReduceOp::sum, first, own.count());
  }
}

/// Sums of small numbers, compared with those of the ring on the host.
inline void sums_as_the_ring(const OneRank& rank) {
  std::vector<float> on_host = small_numbers<float>(rank.rank(), 3001);
  const OnDevice<float> on_device(rank, on_host);
  expect_done(
      rank.run([&] { return rank.nccl.all_reduce(on_device.buffer(Element::float32), ReduceOp::sum, Subject()); }));
  expect_done(rank.run([&]() -> Task<> {
    collectives::Ring ring(rank.fabric.lane(0));
    const Buffer buffer = collectives::testing::buffer_of(on_host, Element::float32);
    co_return co_await ring.all_reduce(buffer, ReduceOp::sum, Subject());
  }));
  EXPECT_EQ(on_device.read(), on_host);
}

inline void gathers_ragged_payloads(const OneRank& rank, bool from_device) {
  Gathered gathered{.payloads = {}, .bytes_max = 4'000'000};
  for (const std::size_t scale : {0UL, 1UL, 999UL, 40'000UL, 3UL}) {  // the last: they shrink again
    const Bytes own = collectives::testing::payload_of(rank.rank(), rank.rank() * scale);
    const OnDevice<std::byte> on_device(rank, {own.begin(), own.end()});
    const ConstBuffer sent = from_device ? ConstBuffer(on_device.buffer(Element::float32)) : ConstBuffer(own);
    expect_done(rank.run([&] { return rank.nccl.all_gather(sent, gathered, {.version = scale}); }));
    ASSERT_EQ(gathered.payloads.size(), rank.ranks());
    for (std::uint32_t r = 0; r < rank.ranks(); ++r) {
      ASSERT_EQ(gathered.payloads[r], collectives::testing::payload_of(r, r * scale)) << "from " << r;
    }
  }
}

inline Bytes payload_between(const OneRank& rank, std::uint32_t source, std::uint32_t to) {
  return collectives::testing::payload_of(source * rank.ranks() + to, (source + 2 * to) * 2'001);
}

/// To rank 1 from the GPU's memory, to the others from the host's.
inline void exchanges_payloads(const OneRank& rank) {
  Gathered incoming{.payloads = {}, .bytes_max = 4'000'000};
  std::vector<Bytes> outgoing;
  for (std::uint32_t to = 0; to < rank.ranks(); ++to) outgoing.push_back(payload_between(rank, rank.rank(), to));
  std::vector<ConstBuffer> buffers(outgoing.begin(), outgoing.end());
  const Bytes& moved = outgoing[rank.ranks() / 2];
  const OnDevice<std::byte> on_device(rank, {moved.begin(), moved.end()});
  buffers[rank.ranks() / 2] = on_device.buffer(Element::float32);
  expect_done(rank.run([&] { return rank.nccl.all_to_all(buffers, incoming, Subject()); }));
  ASSERT_EQ(incoming.payloads.size(), rank.ranks());
  for (std::uint32_t source = 0; source < rank.ranks(); ++source) {
    ASSERT_EQ(incoming.payloads[source], payload_between(rank, source, rank.rank())) << "from " << source;
  }
}

inline void takes_payloads_to_owners_and_back(const OneRank& rank) {
  Gathered incoming{.payloads = {}, .bytes_max = 4'000'000};
  Gathered gathered = incoming;
  ASSERT_EQ(rank.nccl.owners(), rank.ranks());
  std::vector<Bytes> outgoing;
  for (std::uint32_t to = 0; to < rank.ranks(); ++to) outgoing.push_back(payload_between(rank, rank.rank(), to));
  const std::vector<BytesView> views(outgoing.begin(), outgoing.end());
  const Bytes result = collectives::testing::payload_of(rank.rank(), rank.rank() * 999);
  expect_done(rank.run([&] { return rank.nccl.to_owners(views, incoming, Subject()); }));
  expect_done(rank.run([&] { return rank.nccl.from_owners(result, gathered, Subject()); }));
  for (std::uint32_t other = 0; other < rank.ranks(); ++other) {
    ASSERT_EQ(incoming.payloads[other], payload_between(rank, other, rank.rank())) << "from " << other;
    ASSERT_EQ(gathered.payloads[other], collectives::testing::payload_of(other, other * 999)) << "from " << other;
  }
}

inline void swaps_payloads_in_pairs(const OneRank& rank) {
  if (rank.ranks() % 2 != 0) return;
  const std::uint32_t partner = rank.rank() ^ 1;
  const Bytes kept = collectives::testing::payload_of(rank.rank(), 5);
  Gathered incoming{.payloads = std::vector<Bytes>(rank.ranks(), kept), .bytes_max = 4'000'000};
  const Bytes outgoing = payload_between(rank, rank.rank(), partner);
  expect_done(rank.run([&] { return rank.nccl.swap(outgoing, partner, incoming, Subject()); }));
  for (std::uint32_t other = 0; other < rank.ranks(); ++other) {
    const Bytes due = other == partner ? payload_between(rank, partner, rank.rank()) : kept;
    ASSERT_EQ(incoming.payloads[other], due) << "from " << other;
  }
}

inline void copies_one_ranks_values(const OneRank& rank) {
  for (const std::size_t count : counts) {
    for (const std::uint32_t root : {0U, rank.ranks() - 1}) {
      const OnDevice<float> values(rank, small_numbers<float>(rank.rank(), count));
      expect_done(rank.run([&] {
        return rank.nccl.broadcast(values.buffer(Element::float32), root, {.version = count, .bucket = root});
      }));
      ASSERT_EQ(values.read(), small_numbers<float>(root, count));
    }
  }
}

/// All of it.
inline void keeps_its_promises(const OneRank& rank) {
  reduces_all_types(rank);
  scatters_reduced_chunks(rank);
  sums_as_the_ring(rank);
  gathers_ragged_payloads(rank, /*from_device=*/false);
  gathers_ragged_payloads(rank, /*from_device=*/true);
  exchanges_payloads(rank);
  takes_payloads_to_owners_and_back(rank);
  swaps_payloads_in_pairs(rank);
  copies_one_ranks_values(rank);
}

}  // namespace weir::cuda::testing
