#pragma once

#include <cstdint>
#include <optional>

#include "base/pieces.hpp"
#include "base/result.hpp"
#include "protocol/training.hpp"

namespace weir::protocol {

/// One rank's share of a checkpoint, as its pieces come in. A value without any effects. It keeps the pieces as they
/// were received, so that what a rank announces takes no memory before it comes.
class ShareAssembly {
 public:
  /// `piece_bytes`: the length of each piece but the last one.
  explicit ShareAssembly(std::uint64_t piece_bytes = checkpoint_piece_bytes) : piece_bytes_(piece_bytes) {}

  /// Adds the next piece of the share. One that is there already (its answer was lost with a link) changes nothing.
  /// Fails with: invalid_argument (a share that is empty or longer than share_bytes_max), malformed (a piece that is
  /// not the next one, not of its length, or of a share of another length). The share is then as it was.
  Result<void> add(const CheckpointPiece& piece);

  bool is_whole() const { return share_bytes_ && bytes_.size() == *share_bytes_; }

  /// What has come.
  const Pieces& bytes() const { return bytes_; }

 private:
  std::uint64_t piece_bytes_;
  std::optional<std::uint64_t> share_bytes_;  ///< from the first piece on
  Pieces bytes_;
};

}  // namespace weir::protocol
