#include "api/secret.hpp"

#include <span>

#include "base/hmac.hpp"

namespace weir::api {
namespace {

BytesView bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::string hex(const Digest& digest) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const auto byte : digest)
    text += {digits[std::to_integer<unsigned>(byte) >> 4], digits[std::to_integer<unsigned>(byte) & 15]};
  return text;
}

}  // namespace

std::string random_hex() { return hex(random_digest()); }

std::string mac_hex(std::string_view key, std::string_view text) { return hex(hmac_sha256(key, {bytes_of(text)})); }

bool equal_secrets(std::string_view a, std::string_view b) {
  // What is compared are MACs under a key that nobody knows: where they differ tells nothing about the secrets.
  static const std::string key = random_hex();
  return equal_in_constant_time(hmac_sha256(key, {bytes_of(a)}), hmac_sha256(key, {bytes_of(b)}));
}

}  // namespace weir::api
