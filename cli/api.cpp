#include "cli/api.hpp"

#include <string_view>

#include "base/errc.hpp"

namespace weir::cli {

Result<nlohmann::json> Api::call(HttpCall call) const {
  auto answer = client_.request(std::move(call));
  if (!answer) return answer.error();
  if (answer->status < 200 || answer->status > 299) return answer_error(*answer, client_.address());
  if (answer->body.empty()) return nlohmann::json();
  auto parsed = nlohmann::json::parse(answer->body, nullptr, false);
  if (parsed.is_discarded()) {
    return Error{Errc::unsupported, client_.address() + " answers, but not with JSON: is it a weir head?"};
  }
  return parsed;
}

std::string percent_encoded(const std::string& text) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string encoded;
  for (const char c : text) {
    if (plain.find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15]};
    }
  }
  return encoded;
}

}  // namespace weir::cli
