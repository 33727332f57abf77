#include "api/secret.hpp"

#include <span>

#include "base/hmac.hpp"

namespace weir::api {
namespace {

BytesView bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

}  // namespace

std::string random_hex() { return hex(random_digest()); }

std::string mac_hex(std::string_view key, std::string_view text) { return hex(hmac_sha256(key, {bytes_of(text)})); }

bool equal_secrets(std::string_view a, std::string_view b) {
  // Compares MACs under a random key, so that the position of a difference tells nothing about the secrets.
  static const std::string key = random_hex();
  return equal_in_constant_time(hmac_sha256(key, {bytes_of(a)}), hmac_sha256(key, {bytes_of(b)}));
}

}  // namespace weir::api
