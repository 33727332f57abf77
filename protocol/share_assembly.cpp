#include "protocol/share_assembly.hpp"

#include <algorithm>
#include <string>

#include "base/errc.hpp"

namespace weir::protocol {
namespace {

Error refused(Errc code, const CheckpointPiece& piece, const std::string& why) {
  return {code, "rank " + std::to_string(piece.rank) + "'s share of the checkpoint of step " +
                    std::to_string(piece.step) + ": " + why};
}

}  // namespace

Result<void> ShareAssembly::add(const CheckpointPiece& piece) {
  const std::uint64_t all = piece.share_bytes;
  if (all == 0) return refused(Errc::invalid_argument, piece, "it is empty");
  if (all > share_bytes_max) {
    return refused(
        Errc::invalid_argument, piece,
        "it has " + std::to_string(all) + " bytes, and the head takes at most " + std::to_string(share_bytes_max));
  }
  if (share_bytes_.value_or(all) != all) {
    return refused(Errc::malformed, piece,
                   "it had " + std::to_string(*share_bytes_) + " bytes and now has " + std::to_string(all));
  }
  // All pieces but the last are of one length, so it is known where each begins and ends.
  const bool begins_one = piece.offset < all && piece.offset % piece_bytes_ == 0;
  if (!begins_one || piece.bytes.size() != std::min(piece_bytes_, all - piece.offset)) {
    return refused(Errc::malformed, piece,
                   std::to_string(piece.bytes.size()) + " bytes at byte " + std::to_string(piece.offset) + " of " +
                       std::to_string(all) + " are no piece of it");
  }
  if (piece.offset > bytes_.size()) {
    return refused(
        Errc::malformed, piece,
        "a piece at byte " + std::to_string(piece.offset) + " leaves a gap after " + std::to_string(bytes_.size()));
  }
  if (piece.offset < bytes_.size()) return {};  // it is there already
  share_bytes_ = all;
  bytes_.add(piece.bytes);
  return {};
}

}  // namespace weir::protocol
