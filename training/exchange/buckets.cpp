#include "training/exchange/buckets.hpp"

#include <algorithm>
#include <utility>

namespace weir::training {
namespace {

/// Gives the last parameters of the last bucket, up to so many bytes, a bucket of their own.
void split_last(std::vector<Bucket>& buckets, std::span<const ParameterSize> parameters, std::uint64_t bytes) {
  Bucket& last = buckets.back();
  std::uint64_t filled = 0;
  auto first = last.parameters.end();
  for (; first != last.parameters.begin(); --first) {
    filled += parameters[*(first - 1)].bytes;
    if (filled > bytes) break;
  }
  if (first == last.parameters.begin() || first == last.parameters.end()) return;
  Bucket end{.parameters = {first, last.parameters.end()}, .coded = last.coded};
  last.parameters.erase(first, last.parameters.end());
  buckets.push_back(std::move(end));
}

}  // namespace

std::vector<BucketSizes> sizes_around(const BucketSizes& usual) {
  constexpr std::uint64_t smallest_bytes = 256 * 1024;
  constexpr std::uint64_t largest_bytes = 1 << 30;
  std::vector<BucketSizes> sizes;
  if (4 * usual.bytes <= largest_bytes) sizes.push_back({.first_bytes = usual.first_bytes, .bytes = 4 * usual.bytes});
  sizes.push_back(usual);
  for (std::uint64_t bytes = usual.bytes / 4; bytes >= smallest_bytes; bytes /= 4) {
    sizes.push_back({.first_bytes = std::min(usual.first_bytes, bytes), .bytes = bytes});
  }
  return sizes;
}

std::vector<Bucket> plan_buckets(std::span<const ParameterSize> parameters, const BucketSizes& sizes) {
  const bool any_coded = std::ranges::any_of(parameters, &ParameterSize::coded);
  std::vector<Bucket> buckets;
  Bucket filling{.parameters = {}, .coded = any_coded};
  Bucket plain;
  Bucket averaged{.parameters = {}, .averaged = true};
  std::uint64_t filled = 0;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const auto position = static_cast<std::uint32_t>(i);
    if (parameters[i].averaged) {
      averaged.parameters.push_back(position);
      continue;
    }
    if (any_coded && !parameters[i].coded) {
      plain.parameters.push_back(position);
      continue;
    }
    filling.parameters.push_back(position);
    filled += parameters[i].bytes;
    if (filled >= (buckets.empty() ? sizes.first_bytes : sizes.bytes)) {
      buckets.push_back(std::exchange(filling, Bucket{.parameters = {}, .coded = any_coded}));
      filled = 0;
    }
  }
  if (!filling.parameters.empty()) buckets.push_back(std::move(filling));
  if (!buckets.empty()) split_last(buckets, parameters, sizes.first_bytes);
  if (any_coded || buckets.empty()) buckets.push_back(std::move(plain));
  if (!averaged.parameters.empty()) buckets.insert(buckets.end() - 1, std::move(averaged));
  return buckets;
}

std::vector<Bucket> plan_buckets(std::span<const ParameterSize> parameters, const BucketSizes& sizes,
                                 std::span<const std::uint32_t> groups) {
  if (groups.empty()) return plan_buckets(parameters, sizes);
  std::vector<std::vector<std::uint32_t>> members;
  for (std::uint32_t i = 0; i < parameters.size(); ++i) {
    members.resize(std::max<std::size_t>(members.size(), groups[i] + 1));
    members[groups[i]].push_back(i);
  }
  std::vector<Bucket> all;
  for (std::uint32_t group = 0; group < members.size(); ++group) {
    std::vector<ParameterSize> of_group;
    for (const auto i : members[group]) of_group.push_back(parameters[i]);
    for (Bucket& bucket : plan_buckets(of_group, sizes)) {
      for (auto& position : bucket.parameters) position = members[group][position];
      bucket.group = group;
      all.push_back(std::move(bucket));
    }
  }
  return all;
}

}  // namespace weir::training
