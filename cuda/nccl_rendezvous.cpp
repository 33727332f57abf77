#include "cuda/nccl_rendezvous.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/errc.hpp"
#include "collectives/topologies/catalog.hpp"
#include "cuda/nccl_library.hpp"

namespace weir::cuda {
namespace {

using collectives::Communicator;
using collectives::Gathered;
using collectives::Subject;
using collectives::Task;

constexpr std::size_t state_bytes_max = 512;
constexpr std::size_t node_bytes_max = 64;

std::string printable(BytesView bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::string host_name() {
  std::array<char, node_bytes_max + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "an unnamed node";
}

std::string name_of(const NcclState& of_rank) {
  return "rank " + std::to_string(of_rank.rank) + " (" + of_rank.node + ")";
}

}  // namespace

NcclState own_nccl_state(const Result<int>& version) {
  if (version) return {.version = *version, .node = host_name(), .reason = {}};
  return {.version = 0, .node = host_name(), .reason = version.error().context};
}

Bytes encode(const NcclState& state) {
  Bytes bytes;
  const auto version = static_cast<std::uint32_t>(state.version);
  for (unsigned i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(version >> 8 * i));
  const std::string node = state.node.substr(0, node_bytes_max);
  bytes.push_back(static_cast<std::byte>(node.size()));
  append(bytes, std::as_bytes(std::span(node)));
  const std::string reason = state.reason.substr(0, state_bytes_max - bytes.size());
  append(bytes, std::as_bytes(std::span(reason)));
  return bytes;
}

Result<NcclState> decode_nccl_state(BytesView bytes) {
  if (bytes.size() < 5 || bytes.size() > state_bytes_max) {
    return Error{Errc::malformed, "what a rank tells about NCCL has " + std::to_string(bytes.size()) + " bytes"};
  }
  std::uint32_t version = 0;
  for (unsigned i = 0; i < 4; ++i) version |= std::to_integer<std::uint32_t>(bytes[i]) << 8 * i;
  const auto node = std::to_integer<std::size_t>(bytes[4]);
  if (version > 10'000'000 || node > node_bytes_max || node > bytes.size() - 5) {
    return Error{Errc::malformed, "what a rank tells about NCCL does not follow the format"};
  }
  return NcclState{.version = static_cast<int>(version),
                   .node = printable(bytes.subspan(5, node)),
                   .reason = printable(bytes.subspan(5 + node))};
}

Task<std::vector<NcclState>> exchange_nccl_states(Communicator& control, NcclState own, Subject about) {
  const auto mesh = collectives::find_topology("ring")->make(control);
  const Bytes told = encode(own);
  Gathered gathered{.payloads = {}, .bytes_max = state_bytes_max};
  if (auto done = co_await mesh->all_gather(told, gathered, about); !done) co_return done.error();
  std::vector<NcclState> states;
  for (std::uint32_t rank = 0; rank < control.size(); ++rank) {
    auto state = decode_nccl_state(gathered.payloads[rank]);
    if (!state) {
      const Error error = state.error().within("rank " + std::to_string(control.number_in_whole(rank)));
      control.abort(error, collectives::Blame::of_giving_up(control.rank(), about));
      co_return error;
    }
    state->rank = control.number_in_whole(rank);
    states.push_back(std::move(*state));
  }
  co_return states;
}

Result<void> expect_one_nccl(const std::vector<NcclState>& of_ranks) {
  for (const NcclState& one : of_ranks) {
    if (one.version != 0) continue;
    return Error{Errc::unsupported, name_of(one) + " cannot use NCCL: " + one.reason};
  }
  const NcclState& first = of_ranks.front();
  for (const NcclState& one : of_ranks) {
    if (one.version == first.version) continue;
    return Error{Errc::unsupported, name_of(one) + " has NCCL " + nccl_version_text(one.version) + ", and " +
                                        name_of(first) + " has " + nccl_version_text(first.version) +
                                        ": install the same version everywhere"};
  }
  return {};
}

}  // namespace weir::cuda
