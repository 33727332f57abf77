#include "collectives/gossip/gossip.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/half.hpp"

namespace weir::collectives {
namespace {

/// mixed += weight * (theirs - own). Blocks of a fixed length, so that the compiler uses vector registers at -O2 as
/// well.
void pull(float weight, const float* __restrict theirs, const float* __restrict own, std::span<float> mixed) {
  constexpr std::size_t block = 32;
  float* __restrict sum = mixed.data();
  std::size_t i = 0;
  for (; i + block <= mixed.size(); i += block) {
    for (std::size_t j = 0; j < block; ++j) sum[i + j] += weight * (theirs[i + j] - own[i + j]);
  }
  for (; i < mixed.size(); ++i) sum[i] += weight * (theirs[i] - own[i]);
}

template <class Number>
std::span<const Number> numbers(BytesView bytes) {
  return {reinterpret_cast<const Number*>(bytes.data()), bytes.size() / sizeof(Number)};
}

void widen(BytesView from, Element element, std::span<float> to) {
  if (element == Element::float32) {
    if (!to.empty()) std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  std::ranges::fill(to, 0.0F);
  if (element == Element::float16) {
    add_scaled(1, numbers<Half>(from), to);
  } else {
    add_scaled(1, numbers<BFloat16>(from), to);
  }
}

template <class Number>
void round_into(std::span<const float> from, std::span<std::byte> to) {
  const std::span<const Number> view = numbers<Number>(to);
  round_to(from, std::span(const_cast<Number*>(view.data()), view.size()));
}

void narrow(std::span<const float> from, Element element, std::span<std::byte> to) {
  switch (element) {
    case Element::float32:
      if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
      return;
    case Element::float16: return round_into<Half>(from, to);
    case Element::bfloat16: return round_into<BFloat16>(from, to);
  }
}

}  // namespace

Gossip::Gossip(Communicator& group, const Graph& graph) : group_(group), graph_(graph.fingerprint()) {
  ensure(graph.ranks() == group.size(), "a graph over the ranks of the group");
  const std::uint32_t rank = group.rank();
  const auto distance_before = [&](std::uint32_t other) { return (rank + group.size() - other) % group.size(); };
  neighbours_.assign(graph.neighbours(rank).begin(), graph.neighbours(rank).end());
  std::ranges::sort(neighbours_, {}, distance_before);
  for (const std::uint32_t other : neighbours_) {
    weights_.push_back(static_cast<float>(graph.mixing_weight(rank, other)));
  }
  edges_ = std::vector<Edge>(neighbours_.size());
}

void Gossip::Mixer::arrived(std::uint64_t offset, BytesView piece) {
  const BytesView own = own_.bytes.subspan(offset, piece.size());
  std::span<float> mixed = mixed_.subspan(offset / bytes_of(own_.element), piece.size() / bytes_of(own_.element));
  if (own_.element == Element::float32) {
    return pull(weight_, numbers<float>(piece).data(), numbers<float>(own).data(), mixed);
  }
  constexpr std::size_t block = 1024;
  std::array<float, block> theirs_wide;
  std::array<float, block> own_wide;
  for (std::size_t i = 0; i < mixed.size(); i += block) {
    const std::size_t count = std::min(block, mixed.size() - i);
    const std::size_t width = bytes_of(own_.element);
    widen(piece.subspan(i * width, count * width), own_.element, std::span(theirs_wide).first(count));
    widen(own.subspan(i * width, count * width), own_.element, std::span(own_wide).first(count));
    pull(weight_, theirs_wide.data(), own_wide.data(), mixed.subspan(i, count));
  }
}

Gossip::EndOfOperation::~EndOfOperation() {
  for (Edge& edge : edges) {
    edge.arrival.reset();
    edge.mixer.reset();
    edge.collector.reset();
    edge.sent.reset();
  }
}

/// Begins with the nearest after this rank, which expects it first.
void Gossip::send_to_neighbours(const ConstBuffer& message, const Subject& about) {
  for (std::size_t i = edges_.size(); i-- > 0;) edges_[i].sent.emplace(group_, neighbours_[i], about, message);
}

Task<> Gossip::finish() {
  for (Edge& edge : edges_) {
    if (auto done = co_await *edge.arrival; !done) co_return done.error();
  }
  for (Edge& edge : edges_) {
    if (auto done = co_await *edge.sent; !done) co_return done.error();
  }
  co_return Result<void>();
}

Task<> Gossip::mix(Buffer values, Subject about) {
  const Operation next{.name = "mix", .over = name, .options = graph_, .bytes = values.bytes.size(), .about = about};
  return carry_out(group_, next, mix_now(values, about));
}

Task<> Gossip::gather(BytesView own, Gathered& gathered, Subject about) {
  const Operation next{.name = "gather", .over = name, .options = graph_, .bytes = 0, .about = about};
  return carry_out(group_, next, gather_now(own, gathered, about));
}

Task<> Gossip::mix_now(Buffer values, Subject about) {
  if (edges_.empty()) co_return Result<void>();
  const EndOfOperation end(edges_);
  mixed_.resize(values.count());
  widen(values.bytes, values.element, mixed_);
  send_to_neighbours(values, about);
  // The last one first: each waits for the one before it, so that the order of the additions is always the same.
  Receive* follower = nullptr;
  for (std::size_t i = edges_.size(); i-- > 0;) {
    Edge& edge = edges_[i];
    edge.mixer.emplace(weights_[i], values, mixed_, follower);
    edge.arrival.emplace(group_, neighbours_[i], about, *edge.mixer, i == 0 ? Receive::everything : 0);
    follower = &*edge.arrival;
  }
  if (auto done = co_await finish(); !done) co_return done.error();
  narrow(mixed_, values.element, values.bytes);
  co_return Result<void>();
}

Task<> Gossip::gather_now(BytesView own, Gathered& gathered, Subject about) {
  if (own.size() > gathered.bytes_max) {
    co_return Error{Errc::invalid_argument, "a payload of " + std::to_string(own.size()) +
                                                " bytes exceeds the limit of " + std::to_string(gathered.bytes_max)};
  }
  const EndOfOperation end(edges_);
  make_room(group_, gathered, edges_.size());
  send_to_neighbours(own, about);
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    Edge& edge = edges_[i];
    edge.collector.emplace(group_, gathered, i);
    edge.arrival.emplace(group_, neighbours_[i], about, *edge.collector);
  }
  co_return co_await finish();
}

Cost Gossip::mix_cost(std::uint32_t degree, double bytes) {
  return {.alpha = degree > 0 ? 1.0 : 0.0, .beta = degree * bytes, .gamma = degree * bytes};
}

Cost Gossip::gather_cost(std::uint32_t degree, double bytes) {
  return {.alpha = degree > 0 ? 1.0 : 0.0, .beta = degree * bytes, .gamma = 0};
}

}  // namespace weir::collectives
