#include "protocol/checkpoint.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "protocol/roles.hpp"

namespace weir::protocol {
namespace {

constexpr const char* format_key = "weir.checkpoint";
constexpr const char* step_key = "weir.step";
constexpr const char* world_key = "weir.world";
constexpr const char* rank_key = "weir.rank";
constexpr const char* servers_key = "weir.servers";  // absent: none
constexpr const char* format_version = "1";

Error malformed(std::string what) { return {Errc::malformed, "checkpoint: " + std::move(what)}; }

using Metadata = std::map<std::string, std::string>;

Result<std::uint64_t> number(const Metadata& metadata, const char* key, std::uint64_t maximum) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return malformed(std::string("no ") + key);
  const auto& text = found->second;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > maximum) {
    return malformed(std::string(key) + " is not a usable number");
  }
  return value;
}

Result<SafetensorsHeader> read_header(const Pieces& file) {
  const auto length_bytes = std::min<std::uint64_t>(file.size(), sizeof(std::uint64_t));
  const auto header_bytes = safetensors_header_bytes(file.copy(0, length_bytes), file.size());
  if (!header_bytes) return header_bytes.error();
  return read_safetensors_header(file.copy(0, *header_bytes), file.size());
}

}  // namespace

std::string rank_prefix(std::uint32_t rank) { return "rank." + std::to_string(rank) + "."; }

bool may_hold(std::uint32_t rank, std::string_view name) {
  return !name.starts_with("rank.") || name.starts_with(rank_prefix(rank));
}

std::map<std::string, std::string> to_metadata(const CheckpointHeader& header) {
  std::map<std::string, std::string> metadata{
      {format_key, format_version}, {step_key, std::to_string(header.step)}, {world_key, std::to_string(header.world)}};
  if (header.servers > 0) metadata[servers_key] = std::to_string(header.servers);
  if (header.rank) metadata[rank_key] = std::to_string(*header.rank);
  return metadata;
}

Result<CheckpointHeader> read_checkpoint_header(const Metadata& metadata) {
  const auto format = metadata.find(format_key);
  if (format == metadata.end()) return malformed("the file is no weir checkpoint");
  if (format->second != format_version) {
    return Error{Errc::unsupported, "checkpoint: format " + format->second + ", this build reads format 1"};
  }
  constexpr std::uint64_t rank_max = std::numeric_limits<std::uint32_t>::max();
  const auto step = number(metadata, step_key, std::numeric_limits<std::uint64_t>::max());
  if (!step) return step.error();
  const auto world = number(metadata, world_key, rank_max);
  if (!world) return world.error();
  CheckpointHeader header{*step, static_cast<std::uint32_t>(*world), std::nullopt, 0};
  if (metadata.contains(servers_key)) {
    const auto servers = number(metadata, servers_key, rank_max - *world);
    if (!servers) return servers.error();
    header.servers = static_cast<std::uint32_t>(*servers);
  }
  if (metadata.contains(rank_key)) {
    const auto rank = number(metadata, rank_key, rank_max);
    if (!rank) return rank.error();
    const auto members = *world + header.servers;
    if (*rank >= members) return malformed("rank " + std::to_string(*rank) + " of " + std::to_string(members));
    header.rank = static_cast<std::uint32_t>(*rank);
  }
  return header;
}

Result<void> check_group(const CheckpointHeader& header, std::uint32_t world, std::uint32_t members) {
  if (header.rank) {
    return Error{Errc::conflict, "this is the share of rank " + std::to_string(*header.rank) + ", and no checkpoint"};
  }
  const std::uint32_t servers = members > world ? members - world : 0;
  if (header.world == world && header.servers == servers) return {};
  const auto text = [](std::uint64_t workers, std::uint64_t others) {
    const std::string beside = others == 1 ? "1 other process" : std::to_string(others) + " other processes";
    return counted(Role::worker, workers) + (others == 0 ? std::string() : " and " + beside);
  };
  return Error{Errc::conflict, "the checkpoint is of " + text(header.world, header.servers) + ", and the job has " +
                                   text(world, servers)};
}

Result<SafetensorsPieces> join_checkpoint(std::span<const Segment> shares) {
  std::vector<Pieces> in_pieces;
  for (const auto& share : shares) in_pieces.emplace_back(share);
  return join_checkpoint(in_pieces);
}

Result<SafetensorsPieces> join_checkpoint(std::span<const Pieces> shares) {
  std::vector<ScatteredTensor> all;
  std::vector<bool> seen(shares.size(), false);
  std::optional<std::uint64_t> step;
  std::optional<std::uint32_t> world;
  for (const auto& share : shares) {
    auto file = read_header(share);
    if (!file) return file.error();
    const auto header = read_checkpoint_header(file->metadata);
    if (!header) return header.error();
    if (!header->rank) return malformed("a whole checkpoint among the shares");
    const auto rank = *header->rank;
    if (header->world + std::uint64_t{header->servers} != shares.size() ||
        world.value_or(header->world) != header->world) {
      return malformed(std::to_string(shares.size()) + " shares of a job with " + std::to_string(header->world) +
                       " workers and " + std::to_string(header->servers) + " servers");
    }
    world = header->world;
    if (seen[rank]) return malformed("two shares of rank " + std::to_string(rank));
    seen[rank] = true;
    if (step.value_or(header->step) != header->step) return malformed("shares of different steps");
    step = header->step;
    for (auto& tensor : file->tensors) {
      if (!may_hold(rank, tensor.name)) {
        return malformed("rank " + std::to_string(rank) + " may not hold '" + tensor.name + "'");
      }
      std::vector<BytesView> data;
      share.append_views(tensor.offset, tensor.bytes, data);
      all.push_back({std::move(tensor), std::move(data)});
    }
  }
  if (!step) return malformed("no shares");
  const auto servers = static_cast<std::uint32_t>(shares.size()) - *world;
  auto joined = lay_out_safetensors(to_metadata({*step, *world, std::nullopt, servers}), std::move(all));
  if (!joined) return malformed(joined.error().context);
  return joined;
}

}  // namespace weir::protocol
