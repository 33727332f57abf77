#include "compressors/sent.hpp"

#include <utility>

#include "compressors/device/codes.hpp"
#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"

namespace weir::compressors {

Result<void> Sent::add_to(at::Tensor& tensor, float weight) const {
  if (!tensor.is_cpu() && entries_ != nullptr) {
    auto added = device::add_selection(weight, *entries_, tensor);
    return added && corrections_ != nullptr ? device::add_selection(weight, *corrections_, tensor) : added;
  }
  if (entries_ != nullptr) add_selection(weight, *entries_, flat(tensor));
  if (corrections_ != nullptr) add_selection(weight, *corrections_, flat(tensor));
  if (compensated_ != nullptr) accumulate_scaled(weight, flat(*compensated_), flat(tensor));
  if (round_ != nullptr) return compressor_->decode_add(payload_, *round_, weight, tensor);
  for (const SentRows& part : parts_) {
    at::Tensor rows = part.count == 0 ? tensor : tensor.narrow(0, part.first, part.count);
    if (auto added = compressor_->decode_add(part.payload, part.round, weight, rows); !added) return added;
  }
  return {};
}

Result<void> Sent::add_all_to(std::span<at::Tensor> tensors, std::span<const Sent> sent, float weight) {
  std::vector<device::EntriesFor> entries;
  std::vector<device::ToAdd> waiting;
  Compressor* compressor = nullptr;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Sent& one = sent[i];
    const bool there = !tensors[i].is_cpu();
    Result<void> added;
    if (there && one.entries_ != nullptr) {
      entries.push_back({one.selections(), tensors[i]});
    } else if (there && one.round_ != nullptr) {
      compressor = one.compressor_;
      added = compressor->decode_add_later(one.payload_, *one.round_, weight, tensors[i], waiting);
    } else {
      added = one.add_to(tensors[i], weight);
    }
    if (!added) return added;
  }
  if (!entries.empty()) {
    if (auto added = device::add_entries(weight, entries); !added) return added.error();
  }
  return compressor == nullptr ? Result<void>() : compressor->decode_add_all(std::move(waiting));
}

}  // namespace weir::compressors
