#pragma once

#include <string>
#include <string_view>

namespace weir::api {

/// 256 random bits, hexadecimal.
std::string random_hex();

/// HMAC-SHA256 of `text` under `key`, hexadecimal.
std::string mac_hex(std::string_view key, std::string_view text);

/// Takes as long for a wrong secret as for a right one.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace weir::api
