#include "api/target.hpp"

#include <charconv>
#include <cmath>

#include "base/errc.hpp"
#include "base/utf8.hpp"

namespace weir::api {
namespace {

constexpr std::size_t parts_max = 64;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Error out_of_range(std::string_view name, std::int64_t min, std::int64_t max) {
  return {Errc::malformed, "query parameter \"" + std::string(name) + "\" must be a whole number from " +
                               std::to_string(min) + " to " + std::to_string(max)};
}

/// True if a part of a segment between slashes is "." or "..". An actor's name may have slashes, sent encoded, but no
/// such parts.
bool has_dot_part(std::string_view segment) {
  while (true) {
    const auto end = segment.find('/');
    const auto part = segment.substr(0, end);
    if (part == "." || part == "..") return true;
    if (end == std::string_view::npos) return false;
    segment.remove_prefix(end + 1);
  }
}

Result<std::vector<std::string>> parse_path(std::string_view path) {
  std::vector<std::string> segments;
  path.remove_prefix(1);
  while (!path.empty()) {
    const auto end = path.find('/');
    auto segment = percent_decode(path.substr(0, end));
    if (!segment) return segment.error();
    if (segment->empty() || has_dot_part(*segment) || segment->find('\\') != std::string::npos)
      return Error{Errc::malformed, "the path has an empty, \".\" or \"..\" segment, or a backslash"};
    segments.push_back(std::move(*segment));
    if (segments.size() > parts_max) return Error{Errc::malformed, "the path has too many segments"};
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
    // "/sessions/" and an id that is empty by mistake must not mean all sessions. A page's address may end so.
    if (path.empty() && segments.front() == "api")
      return Error{Errc::malformed, "the path ends with a slash: something after it is missing"};
  }
  return segments;
}

Result<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> parameters;
  while (!query.empty()) {
    const auto end = query.find('&');
    std::string pair(query.substr(0, end));
    for (char& c : pair)
      if (c == '+') c = ' ';
    const auto equals = pair.find('=');
    auto name = percent_decode(std::string_view(pair).substr(0, equals));
    if (!name) return name.error();
    auto value = percent_decode(equals == std::string::npos ? "" : std::string_view(pair).substr(equals + 1));
    if (!value) return value.error();
    if (!name->empty()) parameters.emplace_back(std::move(*name), std::move(*value));
    if (parameters.size() > parts_max) return Error{Errc::malformed, "the query has too many parameters"};
    if (end == std::string_view::npos) break;
    query.remove_prefix(end + 1);
  }
  return parameters;
}

}  // namespace

std::optional<std::string_view> Target::find(std::string_view name) const {
  for (const auto& [key, value] : query)
    if (key == name) return value;
  return std::nullopt;
}

Result<std::int64_t> Target::integer(std::string_view name, std::int64_t fallback, std::int64_t min,
                                     std::int64_t max) const {
  const auto text = find(name);
  if (!text) return fallback;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || value < min || value > max)
    return out_of_range(name, min, max);
  return value;
}

Result<std::optional<double>> Target::number(std::string_view name) const {
  const auto text = find(name);
  if (!text) return std::optional<double>{};
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || !std::isfinite(value))
    return Error{Errc::malformed, "query parameter \"" + std::string(name) + "\" must be a number"};
  return std::optional<double>{value};
}

Result<Target> parse_target(std::string_view raw) {
  if (raw.empty() || raw.front() != '/') return Error{Errc::malformed, "the request target must be a path"};
  for (const char c : raw)
    if (c <= 0x20 || c == 0x7f || c == '#')
      return Error{Errc::malformed, "the request target has a character that must be percent-encoded"};
  const auto question = raw.find('?');
  Target target;
  target.path = raw.substr(0, question);
  auto segments = parse_path(target.path);
  if (!segments) return segments.error();
  target.segments = std::move(*segments);
  if (question == std::string_view::npos) return target;
  auto query = parse_query(raw.substr(question + 1));
  if (!query) return query.error();
  target.query = std::move(*query);
  return target;
}

Result<std::string> percent_decode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    const int high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return Error{Errc::malformed, "bad percent-encoding in the request target"};
    decoded.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  if (decoded.find('\0') != std::string::npos || !is_utf8(decoded))
    return Error{Errc::malformed, "the request target is not UTF-8 text"};
  return decoded;
}

std::string percent_encode(std::string_view text) {
  static constexpr std::string_view digits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      encoded.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return encoded;
}

}  // namespace weir::api
