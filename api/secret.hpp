#pragma once

#include <string>
#include <string_view>

namespace weir::api {

/// 256 random bits, hexadecimal.
std::string random_hex();

/// HMAC-SHA256 of `text` under `key`, hexadecimal.
std::string mac_hex(std::string_view key, std::string_view text);

/// Compares two secrets. The time it takes does not depend on where they differ.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace weir::api
