#include "base/printable.hpp"

#include <cstdio>

namespace weir {
namespace {

/// The number of bytes of the UTF-8 character at the front, or 0 if there is none. Refuses overlong forms, surrogates,
/// and code points beyond U+10FFFF.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

/// True for the control characters C1: U+0080 to U+009F.
bool second_control_set(std::string_view character) {
  return character.size() == 2 && character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0;
}

std::string hex(const char* form, unsigned value) {
  char text[8];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string cleaned(std::string_view text, bool lines) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const std::string_view character = text.substr(0, bytes == 0 ? 1 : bytes);
    const char c = character[0];
    const bool control = bytes == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7F);
    if (bytes == 0 || (control && !(lines && (c == '\n' || c == '\t')))) {
      clean += hex("\\x%02x", static_cast<unsigned char>(c));
    } else if (second_control_set(character)) {
      clean += hex("\\x%02x", static_cast<unsigned char>(character[1]));
    } else {
      clean += character;
    }
    text.remove_prefix(character.size());
  }
  return clean;
}

}  // namespace

std::string printable(std::string_view text) { return cleaned(text, true); }
std::string printable_line(std::string_view text) { return cleaned(text, false); }

std::string printable_json(std::string_view text) {
  std::string clean;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == 0x7F) {
      clean += "\\u007f";
    } else if (second_control_set(text.substr(i, 2))) {
      clean += hex("\\u00%02x", static_cast<unsigned char>(text[++i]));
    } else {
      clean += text[i];
    }
  }
  return clean;
}

}  // namespace weir
