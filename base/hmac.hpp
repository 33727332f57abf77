#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/bytes.hpp"

namespace weir {

using Digest = std::array<std::byte, 32>;

/// HMAC-SHA256 (RFC 2104) over the concatenation of `parts`. The parts are not delimited: give each but the
/// last a fixed length.
Digest hmac_sha256(std::string_view key, std::initializer_list<BytesView> parts);

/// Compares in a time that does not depend on where the digests differ.
bool equal_in_constant_time(const Digest& a, const Digest& b);

/// 256 random bits from the system's generator: a nonce, or the raw material of a secret.
Digest random_digest();

/// As 64 hexadecimal digits.
std::string hex(const Digest& digest);

}  // namespace weir
