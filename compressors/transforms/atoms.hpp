#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/kernels/linear_algebra/low_rank.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {

// The wire formats of ATOMO: atoms that were drawn, already scaled by 1 / p.

/// The random words of a payload: those of `key`, starting at `first_word`.
struct Draws {
  RandomKey key;
  std::uint64_t first_word = 0;
};

/// Drawn entries or coefficients. Those whose magnitude is not above the level have exactly the level as their
/// magnitude.
struct DrawnValues {
  Selection selection;
  float level = 0;
};

enum class ValueKind : std::uint8_t { entries = 0, cosines = 1 };

// The body of Format::balanced:
//
//     varint  entries of the tensor
//     varint  count of values sent
//     varint  how many of them are large: above the level
//     u8      index codec (low half), ValueKind (high half)
//     u8      bits of a large value, 0 for float32 (transforms/rounded.hpp)
//     f32     level
//     ...     positions, as the index codec writes them; their size is what the other parts leave
//     ...     if some, but not all, are large: a bit for each value, 1 for a large one
//     ...     a bit for each value that is not large, 1 for a negative one
//     ...     the large values

void write_balanced(const DrawnValues& drawn, std::uint32_t entries, ValueKind kind, unsigned bits, const Draws& draws,
                    Bytes& out);

/// Fails with: malformed, unsupported.
Result<void> read_balanced(BytesView payload, std::uint64_t entries, ValueKind kind, DrawnValues& drawn);

/// Outer products: column j of `left` times column j of `right`.
struct OuterProducts {
  MatrixShape shape;
  std::size_t count = 0;
  std::vector<float> left = {};
  std::vector<float> right = {};
};

// The body of Format::low_rank:
//
//     varint  rows of the matrix
//     varint  its columns
//     varint  count of outer products
//     u8      bits of a number, 0 for float32 (transforms/rounded.hpp)
//     ...     for each outer product its left factor, as long as the matrix has rows, and its right one

void write_outer_products(const OuterProducts& products, unsigned bits, const Draws& draws, Bytes& out);

/// The outer products that are read add up to finite floats. Fails with: malformed, unsupported.
Result<void> read_outer_products(BytesView payload, MatrixShape shape, OuterProducts& products);

}  // namespace weir::compressors
