// What a checkpoint may say from which processes go on, and what their shares of the next one may.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/bytes.hpp"
#include "base/ensure.hpp"
#include "base/pieces.hpp"
#include "protocol/checkpoint.hpp"
#include "protocol/checkpoint_part.hpp"
#include "protocol/safetensors.hpp"
#include "protocol/share_assembly.hpp"

namespace {

using weir::Bytes;
using weir::BytesView;
using weir::ensure;
using weir::Segment;
using namespace weir::protocol;

Bytes copy_of(BytesView bytes) {
  Bytes copy;
  weir::append(copy, bytes);
  return copy;
}

/// The part of a process is a file of its own, with tensors of the whole one.
void take_part(BytesView file, std::uint32_t rank, Role role) {
  if (!safetensors_header_bytes(file, file.size())) return;
  const auto header = read_safetensors_header(file, file.size());
  if (!header) return;
  const auto about = read_checkpoint_header(header->metadata);
  if (about && check_group(*about, 2, 3)) ensure(about->world == 2 && about->servers == 1, "another group");
  const auto part = CheckpointPart::make(*header, rank, role);
  ensure(part.has_value(), "a header that was read can be written");
  const auto read = [file](std::uint64_t offset, std::span<std::byte> into) -> weir::Result<void> {
    ensure(offset <= file.size() && into.size() <= file.size() - offset, "bytes of the file");
    std::ranges::copy(file.subspan(offset, into.size()), into.begin());
    return {};
  };
  Bytes bytes;
  while (bytes.size() < part->size()) {
    const auto piece = part->read(bytes.size(), 100, read);
    ensure(piece && !piece->empty(), "there is more");
    weir::append(bytes, *piece);
  }
  ensure(bytes.size() == part->size(), "a part is as long as it says");
  const auto tensors = read_safetensors(Segment::own(std::move(bytes)));
  ensure(tensors.has_value(), "a part is a file");
  for (const StoredTensor& tensor : tensors->tensors) {
    const auto whole = std::ranges::find(header->tensors, tensor.name, &TensorEntry::name);
    ensure(whole != header->tensors.end() && whole->shape == tensor.shape && whole->dtype == tensor.dtype &&
               std::ranges::equal(file.subspan(whole->offset, whole->bytes), tensor.bytes),
           "a tensor of the whole file");
  }
}

/// Seven bytes before each piece of a share: whose it is, how long the share is, where the piece begins and how long it
/// is.
struct PieceHead {
  std::uint8_t rank = 0;
  std::uint16_t share_bytes = 0;
  std::uint16_t offset = 0;
  std::uint16_t bytes = 0;

  static constexpr std::size_t size = 7;

  static PieceHead of(BytesView input) {
    PieceHead head;
    std::memcpy(&head.rank, input.data(), 1);
    std::memcpy(&head.share_bytes, input.data() + 1, 2);
    std::memcpy(&head.offset, input.data() + 3, 2);
    std::memcpy(&head.bytes, input.data() + 5, 2);
    return head;
  }
};

/// Pieces of the shares of two ranks, in any order, and what is made of shares that are there.
void assemble(BytesView input) {
  constexpr std::uint64_t piece_bytes = 64;
  std::array shares{ShareAssembly(piece_bytes), ShareAssembly(piece_bytes)};
  while (input.size() >= PieceHead::size) {
    const PieceHead head = PieceHead::of(input);
    input = input.subspan(PieceHead::size);
    const BytesView bytes = input.first(std::min<std::size_t>(head.bytes, input.size()));
    input = input.subspan(bytes.size());
    ShareAssembly& share = shares[head.rank % 2];
    const std::uint64_t before = share.bytes().size();
    const auto added = share.add({.job_id = {},
                                  .rank = head.rank,
                                  .attempt = 0,
                                  .step = 0,
                                  .share_bytes = head.share_bytes,
                                  .offset = head.offset,
                                  .bytes = Segment::own(copy_of(bytes))});
    const std::uint64_t after = share.bytes().size();
    const bool grown = after == before + bytes.size() && after <= head.share_bytes;
    ensure(after == before || (added && grown), "a piece too much");
  }
  if (!shares[0].is_whole() || !shares[1].is_whole()) return;
  const auto joined = join_checkpoint(std::array{shares[0].bytes(), shares[1].bytes()});
  if (!joined) return;
  const auto file = read_safetensors(Segment::own(joined->whole()));
  ensure(file.has_value(), "what was joined is a file");
  const auto header = read_checkpoint_header(*file);
  ensure(header && !header->rank, "and a checkpoint");
}

}  // namespace

/// Byte 0 chooses: pieces of shares, or by its other bits the rank and the role of whom a file is read for.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const BytesView input = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] % 2 == 0) {
    assemble(input);
  } else {
    take_part(input, data[0] / 2U % 4, all_roles[data[0] / 8U % all_roles.size()]);
  }
  return 0;
}
