#include "compressors/transforms/atoms.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "compressors/codecs/index_codec.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/kernels/pack.hpp"
#include "compressors/transforms/rounded.hpp"

namespace weir::compressors {
namespace {

bool is_large(float value, float level) { return std::fabs(value) > level; }

/// The sizes of the three parts after the positions.
struct TailBytes {
  std::size_t flags;
  std::size_t signs;
  std::size_t large;

  TailBytes(std::size_t count, std::size_t large_count, unsigned bits)
      : flags(large_count > 0 && large_count < count ? packed_bytes(count, 1) : 0),
        signs(packed_bytes(count - large_count, 1)),
        large(rounded_bytes(large_count, bits)) {}
  std::size_t all() const { return flags + signs + large; }
};

Error cut_off() { return Error(Errc::malformed, "a payload of atoms is cut off"); }

/// Unpacks single bits. Fails with: malformed.
Result<void> read_bits(BytesView in, std::size_t count, std::vector<std::uint8_t>& bits) {
  if (!padding_is_zero(in, count, 1)) return Error(Errc::malformed, "a payload's last bit has bits behind it");
  bits.resize(count);
  unpack(in, 1, bits);
  return {};
}

/// The parts of a payload of Format::balanced behind the positions. Each thread keeps them between calls to reuse their
/// memory.
struct Tail {
  std::vector<std::uint8_t> flags;
  std::vector<std::uint8_t> signs;
  std::vector<float> large;

  static Tail& of_this_thread() {
    thread_local Tail kept;
    return kept;
  }
};

}  // namespace

void write_balanced(const DrawnValues& drawn, std::uint32_t entries, ValueKind kind, unsigned bits, const Draws& draws,
                    Bytes& out) {
  const Selection& selection = drawn.selection;
  const std::size_t count = selection.size();
  auto& [flags, signs, large] = Tail::of_this_thread();
  flags.resize(count);
  signs.clear();
  large.clear();
  for (std::size_t i = 0; i < count; ++i) {
    flags[i] = is_large(selection.values[i], drawn.level);
    if (flags[i] != 0) {
      large.push_back(selection.values[i]);
    } else {
      signs.push_back(std::signbit(selection.values[i]));
    }
  }
  const TailBytes tail(count, large.size(), bits);
  const IndexCodec& index = choose_index_codec("auto", selection.positions, entries);
  const std::size_t index_bytes = index.bytes(selection.positions, entries);
  PayloadWriter payload(out, Format::balanced,
                        varint_bytes(entries) + varint_bytes(count) + varint_bytes(large.size()) + 2 + sizeof(float) +
                            index_bytes + tail.all());
  std::span<std::byte> body = payload.body();
  std::byte* at = store_varint(store_varint(store_varint(body.data(), entries), count), large.size());
  *at++ = static_cast<std::byte>(index.id | static_cast<unsigned>(kind) << 4);
  *at++ = static_cast<std::byte>(bits);
  std::memcpy(at, &drawn.level, sizeof drawn.level);
  index.encode(selection.positions, entries, body.last(tail.all() + index_bytes).first(index_bytes));
  body = body.last(tail.all());
  if (tail.flags > 0) pack(flags, 1, body.first(tail.flags));
  pack(signs, 1, body.subspan(tail.flags, tail.signs));
  write_rounded(large, bits, draws.key, draws.first_word, body.last(tail.large));
  payload.seal();
}

Result<void> read_balanced(BytesView payload, std::uint64_t entries, ValueKind kind, DrawnValues& drawn) {
  const auto opened = open_payload(payload, Format::balanced);
  if (!opened) return opened.error();
  BytesView body = *opened;
  const auto said_entries = read_varint(body);
  const auto count = read_varint(body);
  const auto large_count = read_varint(body);
  if (!said_entries || !count || !large_count || body.size() < 2 + sizeof(float)) return cut_off();
  if (*said_entries != entries) {
    return Error(Errc::malformed, "a payload for " + std::to_string(*said_entries) + " entries came for a tensor of " +
                                      std::to_string(entries));
  }
  if (*count > entries || *large_count > *count) {
    return Error(Errc::malformed, "a payload has more entries than its tensor");
  }
  const auto index = index_codec(std::to_integer<std::uint8_t>(body[0]) & 0x0F);
  if (!index) return index.error();
  if (std::to_integer<std::uint8_t>(body[0]) >> 4 != static_cast<unsigned>(kind)) {
    return Error(Errc::malformed, "a payload has atoms of another kind");
  }
  const auto bits = std::to_integer<unsigned>(body[1]);
  if (!valid_rounding(bits)) return Error(Errc::malformed, "a payload's numbers have no such number of bits");
  std::memcpy(&drawn.level, body.data() + 2, sizeof drawn.level);
  if (!std::isfinite(drawn.level) || std::signbit(drawn.level)) {
    return Error(Errc::malformed, "a payload's level is not a size");
  }
  body = body.subspan(2 + sizeof(float));
  const TailBytes tail(*count, *large_count, bits);
  if (tail.all() > body.size()) return cut_off();
  drawn.selection.positions.resize(*count);
  const auto decoded = (*index)->decode(body.first(body.size() - tail.all()), entries, drawn.selection.positions);
  if (!decoded) return decoded.error();
  body = body.last(tail.all());
  auto& [flags, signs, large] = Tail::of_this_thread();
  flags.assign(*count, *large_count > 0 ? 1 : 0);
  if (tail.flags > 0) {
    if (auto read = read_bits(body.first(tail.flags), *count, flags); !read) return read;
    if (static_cast<std::uint64_t>(std::ranges::count(flags, 1)) != *large_count) {
      return Error(Errc::malformed, "a payload marks another number of large values than it has");
    }
  }
  if (auto read = read_bits(body.subspan(tail.flags, tail.signs), *count - *large_count, signs); !read) return read;
  large.resize(*large_count);
  if (auto read = read_rounded(body.last(tail.large), bits, large); !read) return read;
  drawn.selection.values.resize(*count);
  std::size_t next_sign = 0;
  std::size_t next_large = 0;
  for (std::size_t i = 0; i < *count; ++i) {
    drawn.selection.values[i] = flags[i] != 0             ? large[next_large++]
                                : signs[next_sign++] != 0 ? -drawn.level
                                                          : drawn.level;
  }
  return {};
}

void write_outer_products(const OuterProducts& products, unsigned bits, const Draws& draws, Bytes& out) {
  const auto [rows, columns] = products.shape;
  const std::size_t left_bytes = rounded_bytes(rows, bits);
  const std::size_t right_bytes = rounded_bytes(columns, bits);
  PayloadWriter payload(out, Format::low_rank,
                        varint_bytes(rows) + varint_bytes(columns) + varint_bytes(products.count) + 1 +
                            products.count * (left_bytes + right_bytes));
  std::byte* at = store_varint(store_varint(store_varint(payload.body().data(), rows), columns), products.count);
  *at++ = static_cast<std::byte>(bits);
  std::uint64_t word = draws.first_word;
  for (std::size_t j = 0; j < products.count; ++j) {
    const auto left = std::span(products.left).subspan(j * rows, rows);
    const auto right = std::span(products.right).subspan(j * columns, columns);
    write_rounded(left, bits, draws.key, word, {at, left_bytes});
    word += rounded_words(rows, bits);
    write_rounded(right, bits, draws.key, word, {at + left_bytes, right_bytes});
    word += rounded_words(columns, bits);
    at += left_bytes + right_bytes;
  }
  payload.seal();
}

Result<void> read_outer_products(BytesView payload, MatrixShape shape, OuterProducts& products) {
  const auto opened = open_payload(payload, Format::low_rank);
  if (!opened) return opened.error();
  BytesView body = *opened;
  const auto rows = read_varint(body);
  const auto columns = read_varint(body);
  const auto count = read_varint(body);
  if (!rows || !columns || !count || body.empty()) return cut_off();
  if (*rows != shape.rows || *columns != shape.columns) {
    return Error(Errc::malformed, "a payload for a matrix of " + std::to_string(*rows) + " x " +
                                      std::to_string(*columns) + " came for one of " + std::to_string(shape.rows) +
                                      " x " + std::to_string(shape.columns));
  }
  const auto bits = std::to_integer<unsigned>(body[0]);
  if (!valid_rounding(bits)) return Error(Errc::malformed, "a payload's numbers have no such number of bits");
  body = body.subspan(1);
  const std::size_t left_bytes = rounded_bytes(shape.rows, bits);
  const std::size_t right_bytes = rounded_bytes(shape.columns, bits);
  if (*count > std::min(shape.rows, shape.columns) || *count * (left_bytes + right_bytes) != body.size()) {
    return Error(Errc::malformed, "a payload has another length than its outer products");
  }
  products.shape = shape;
  products.count = *count;
  products.left.resize(products.count * shape.rows);
  products.right.resize(products.count * shape.columns);
  for (std::size_t j = 0; j < products.count; ++j) {
    const auto left = std::span(products.left).subspan(j * shape.rows, shape.rows);
    const auto right = std::span(products.right).subspan(j * shape.columns, shape.columns);
    if (auto read = read_rounded(body.first(left_bytes), bits, left); !read) return read.error();
    if (auto read = read_rounded(body.subspan(left_bytes, right_bytes), bits, right); !read) return read.error();
    body = body.subspan(left_bytes + right_bytes);
  }
  if (!outer_products_are_finite(products.left, products.right, products.count)) {
    return Error(Errc::malformed, "a payload decodes to more than a float can hold");
  }
  return {};
}

}  // namespace weir::compressors
