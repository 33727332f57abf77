#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/pieces.hpp"
#include "base/result.hpp"
#include "protocol/safetensors.hpp"

namespace weir::protocol {

/// A checkpoint is one safetensors file. Tensors of the whole job (model, optimizer) are written under plain names, by
/// rank 0 or, where servers hold the model, each by one of them; tensors of a single rank (compressor memory, random
/// generators) have names that begin with "rank.<r>.". Each rank sends a share; the head joins the shares.
struct CheckpointHeader {
  std::uint64_t step = 0;             ///< steps done when it was taken
  std::uint32_t world = 1;            ///< workers of the job: the first ranks
  std::optional<std::uint32_t> rank;  ///< the rank whose share this is; none for a whole checkpoint
  std::uint32_t servers = 0;          ///< ranks after the workers
};

/// "rank.<r>.", the prefix of a rank's own tensors.
std::string rank_prefix(std::uint32_t rank);

/// Whether rank `rank` may hold a tensor of that name: those of the job are with one rank each.
bool may_hold(std::uint32_t rank, std::string_view name);

/// The header as safetensors metadata.
std::map<std::string, std::string> to_metadata(const CheckpointHeader& header);

/// Refuses the share of one rank, and a checkpoint of another number of workers or of ranks after them than a job with
/// `world` workers among `members` ranks has. Fails with: conflict.
Result<void> check_group(const CheckpointHeader& header, std::uint32_t world, std::uint32_t members);

/// From a file's metadata. Fails with: malformed, unsupported (a later format).
Result<CheckpointHeader> read_checkpoint_header(const std::map<std::string, std::string>& metadata);
inline Result<CheckpointHeader> read_checkpoint_header(const Safetensors& file) {
  return read_checkpoint_header(file.metadata);
}

/// Joins the shares of all ranks of one step, servers included, in any order, into one file. The same shares give the
/// same bytes. The data are views of the shares'. Fails with: malformed (no safetensors file, a rank missing or twice,
/// ranks of different steps, a tensor under another rank's prefix, a tensor of the whole job from two ranks).
Result<SafetensorsPieces> join_checkpoint(std::span<const Pieces> shares);

/// The same of shares that are in one piece each.
Result<SafetensorsPieces> join_checkpoint(std::span<const Segment> shares);

}  // namespace weir::protocol
