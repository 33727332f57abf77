#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "protocol/checkpoint_part.hpp"
#include "protocol/roles.hpp"

namespace weir::cluster {

/// Reads the checkpoint that a job goes on from, piece by piece: each process its part. The file stays open, so that
/// it may be removed meanwhile. Its functions block: they run on Services::files, several at a time.
class CheckpointReader {
 public:
  /// `roles`: of all processes of the job, by rank. Fails with: io, malformed, unsupported.
  static Result<std::shared_ptr<const CheckpointReader>> open(const std::filesystem::path& file,
                                                              std::span<const protocol::Role> roles);

  /// The bytes of the part of a rank, and of all parts.
  std::uint64_t bytes_of(std::uint32_t rank) const { return parts_.at(rank).size(); }
  std::uint64_t bytes_of_all() const;

  /// The bytes of a rank's part from `offset` on: protocol::checkpoint_piece_bytes of them, or as many as there are.
  /// Fails with: io.
  Result<Segment> read(std::uint32_t rank, std::uint64_t offset) const;

 private:
  CheckpointReader(std::filesystem::path file, Descriptor descriptor)
      : file_(std::move(file)), descriptor_(std::move(descriptor)) {}

  Result<void> read_header(std::span<const protocol::Role> roles);
  Result<void> read_file(std::uint64_t offset, std::span<std::byte> into) const;

  const std::filesystem::path file_;
  const Descriptor descriptor_;
  std::vector<protocol::CheckpointPart> parts_;  ///< by rank
};

}  // namespace weir::cluster
