#include "collectives/topologies/checked.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/errc.hpp"

namespace weir::collectives {
namespace {

/// In the place of an operation on what no message can be sent from.
Task<> refuse(Device device) {
  co_return Error{Errc::unsupported, "the values are in the memory of GPU " + std::to_string(device.gpu) +
                                         ", and this topology sends messages from the host's"};
}

}  // namespace

Operation CheckedCollective::operation(std::string_view operation, const Subject& about) const {
  return {.name = operation, .over = name_, .options = options_, .bytes = 0, .about = about};
}

/// `option`: of the operation.
Operation CheckedCollective::operation(std::string_view operation, const Buffer& values, std::uint32_t option,
                                       const Subject& about) const {
  const auto element = static_cast<std::uint64_t>(values.element);
  return {.name = operation,
          .over = name_,
          .options = element << 48 | std::uint64_t{option} << 32 | options_,
          .bytes = values.bytes.size(),
          .about = about};
}

Task<> CheckedCollective::all_reduce(Buffer values, ReduceOp op, Subject about) {
  const Operation next = operation("all_reduce", values, static_cast<std::uint32_t>(op), about);
  auto work = values.device.is_host() ? collective_->all_reduce(values, op, about) : refuse(values.device);
  return carry_out(group_, next, std::move(work));
}

Task<> CheckedCollective::reduce_scatter(Buffer values, ReduceOp op, Subject about) {
  const Operation next = operation("reduce_scatter", values, static_cast<std::uint32_t>(op), about);
  auto work = values.device.is_host() ? collective_->reduce_scatter(values, op, about) : refuse(values.device);
  return carry_out(group_, next, std::move(work));
}

Task<> CheckedCollective::all_gather(ConstBuffer own, Gathered& gathered, Subject about) {
  auto work = own.device.is_host() ? collective_->all_gather(own, gathered, about) : refuse(own.device);
  return carry_out(group_, operation("all_gather", about), std::move(work));
}

Task<> CheckedCollective::all_to_all(std::span<const ConstBuffer> outgoing, Gathered& incoming, Subject about) {
  const auto elsewhere = std::ranges::find_if(outgoing, [](const ConstBuffer& to) { return !to.device.is_host(); });
  const bool sendable = elsewhere == outgoing.end();
  auto work = sendable ? collective_->all_to_all(outgoing, incoming, about) : refuse(elsewhere->device);
  return carry_out(group_, operation("all_to_all", about), std::move(work));
}

Task<> CheckedCollective::to_owners(std::span<const BytesView> outgoing, Gathered& incoming, Subject about) {
  return carry_out(group_, operation("to_owners", about), collective_->to_owners(outgoing, incoming, about));
}

Task<> CheckedCollective::from_owners(BytesView own, Gathered& gathered, Subject about) {
  return carry_out(group_, operation("from_owners", about), collective_->from_owners(own, gathered, about));
}

Task<> CheckedCollective::swap(BytesView outgoing, std::uint32_t partner, Gathered& incoming, Subject about) {
  return carry_out(group_, operation("swap", about), collective_->swap(outgoing, partner, incoming, about));
}

Task<> CheckedCollective::broadcast(Buffer values, std::uint32_t root, Subject about) {
  auto work = values.device.is_host() ? collective_->broadcast(values, root, about) : refuse(values.device);
  return carry_out(group_, operation("broadcast", values, root, about), std::move(work));
}

}  // namespace weir::collectives
