#include "cli/api.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/errc.hpp"
#include "cli/format.hpp"

namespace weir::cli {

Result<nlohmann::json> Api::call(HttpCall call) const {
  auto answer = client_.request(std::move(call));
  if (!answer) return answer.error();
  return read(*answer);
}

Result<nlohmann::json> Api::read(const HttpAnswer& answer) const {
  if (answer.status < 200 || answer.status > 299) return answer_error(answer, client_.address());
  if (answer.body.empty()) return nlohmann::json();
  auto parsed = nlohmann::json::parse(answer.body, nullptr, false);
  if (parsed.is_discarded()) {
    return Error{Errc::unsupported, client_.address() + " answers, but not with JSON: is it a weir head?"};
  }
  return parsed;
}

Result<std::string> Api::body(const std::string& target) const {
  auto answer = client_.request({.target = target});
  if (!answer) return answer.error();
  if (answer->status != 200) return answer_error(*answer, client_.address());
  return std::move(answer->body);
}

Result<Api::Listing> Api::list(const std::string& path, const std::string& name, const std::string& query,
                               std::size_t most) const {
  constexpr std::size_t page_max = 1000;
  Listing listing;
  do {
    const auto limit = std::min(most - listing.items.size(), page_max);
    std::string target = path + "?" + query + "limit=" + std::to_string(limit);
    if (listing.next.is_string()) target += "&cursor=" + percent_encoded(listing.next);
    auto page = get(target);
    if (!page) return page.error();
    for (const nlohmann::json& item : member(*page, name.c_str())) listing.items.push_back(item);
    listing.next = member(*page, "next");
  } while (listing.next.is_string() && listing.items.size() < most);
  return listing;
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
