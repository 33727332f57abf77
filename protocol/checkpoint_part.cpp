#include "protocol/checkpoint_part.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "protocol/checkpoint.hpp"

namespace weir::protocol {
namespace {

/// Whether it is "rank.<r>.model.<...>".
bool is_workers_model(std::string_view name) {
  constexpr std::string_view prefix = "rank.";
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  const auto digits = std::min(name.find_first_not_of("0123456789"), name.size());
  return name.substr(digits).starts_with(".model.");
}

bool is_needed(std::uint32_t rank, Role role, std::string_view name) {
  return may_hold(rank, name) || (role == Role::server && is_workers_model(name));
}

}  // namespace

Result<CheckpointPart> CheckpointPart::make(const SafetensorsHeader& whole, std::uint32_t rank, Role role) {
  std::vector<TensorEntry> needed;
  for (const TensorEntry& tensor : whole.tensors) {
    if (is_needed(rank, role, tensor.name)) needed.push_back(tensor);
  }
  auto header = write_safetensors_header(whole.metadata, needed);
  if (!header) return header.error();
  CheckpointPart part;
  part.header_ = std::move(*header);
  part.size_ = part.header_.size();
  for (const TensorEntry& tensor : needed) {
    const Run* last = part.runs_.empty() ? nullptr : &part.runs_.back();
    if (last != nullptr && last->in_file + last->bytes == tensor.offset) {
      part.runs_.back().bytes += tensor.bytes;
    } else {
      part.runs_.push_back({.here = part.size_, .in_file = tensor.offset, .bytes = tensor.bytes});
    }
    part.size_ += tensor.bytes;
  }
  return part;
}

Result<Bytes> CheckpointPart::read(std::uint64_t offset, std::uint64_t limit, ReadFile read) const {
  Bytes bytes;
  if (offset >= size_) return bytes;
  const std::uint64_t end = offset + std::min(limit, size_ - offset);
  bytes.resize(end - offset, boost::container::default_init);
  if (offset < header_.size()) {
    const auto count = std::min<std::uint64_t>(end, header_.size()) - offset;
    std::copy_n(header_.begin() + static_cast<std::ptrdiff_t>(offset), count, bytes.begin());
  }
  for (const Run& run : runs_) {
    const auto first = std::max(offset, run.here);
    const auto last = std::min(end, run.here + run.bytes);
    if (first >= last) continue;
    const std::span<std::byte> into(bytes.data() + (first - offset), last - first);
    if (auto done = read(run.in_file + (first - run.here), into); !done) return done.error();
  }
  return bytes;
}

}  // namespace weir::protocol
