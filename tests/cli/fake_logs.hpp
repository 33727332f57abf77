#pragma once

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/utf8.hpp"
#include "tests/cli/fake_http.hpp"

namespace weir::cli::testing {

/// What a head answers to `request`, one for /logs, when the processes have printed `logs`: as JSON with what is no
/// text replaced, and not cut inside a character unless there is nothing else, or as text byte for byte.
inline std::string log_answer(const FakeRequest& request, const std::map<unsigned, std::string>& logs, bool complete) {
  const std::string line = request.line();
  const auto asked = [&](const std::string& name, std::size_t otherwise) {
    const auto at = line.find(name + "=");
    return at == std::string::npos ? otherwise : std::stoul(line.substr(at + name.size() + 1));
  };
  const auto worker = static_cast<unsigned>(asked("worker", 0));
  const std::string log = logs.contains(worker) ? logs.at(worker) : "";
  const std::size_t offset = std::min(asked("offset", 0), log.size());
  std::string part = log.substr(offset, asked("limit", 65536));
  if (request.has("format=text")) return answer(200, part, "text/plain; charset=utf-8");
  if (const auto tail = unfinished_tail(part); tail < part.size()) part.resize(part.size() - tail);
  auto sizes = nlohmann::json::array();
  for (const auto& [rank, text] : logs) {
    if (!text.empty()) sizes.push_back({{"worker", rank}, {"size", text.size()}});
  }
  const nlohmann::json document{
      {"job", "J1"},        {"worker", worker},     {"offset", offset}, {"next_offset", offset + part.size()},
      {"size", log.size()}, {"complete", complete}, {"workers", sizes}, {"text", part}};
  return answer(200, document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace weir::cli::testing
