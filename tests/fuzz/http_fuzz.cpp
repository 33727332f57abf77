// What a client may send before anything knows it: header framing, request target, and the JSON of a job spec.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/message.hpp"
#include "api/problem.hpp"
#include "api/target.hpp"
#include "base/ensure.hpp"
#include "base/utf8.hpp"
#include "protocol/job_spec.hpp"

using namespace weir;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  if (api::check_framing(text)) ensure(text.ends_with("\r\n\r\n"), "a header without an end was accepted");

  if (const auto target = api::parse_target(text)) {
    for (const auto& segment : target->segments) {
      ensure(segment != "." && segment != "..", "a path that climbs was accepted");
      ensure(is_utf8(segment), "a segment is not text");
      ensure(api::percent_decode(api::percent_encode(segment)).value() == segment, "encoding loses something");
    }
  }

  if (auto document = api::parse_json(text)) {
    api::to_text(*document);
    const nlohmann::json catalog = {{"models", nlohmann::json::array()}};
    const auto problems = protocol::normalize_job_spec(*document, catalog);
    if (problems.empty()) (void)protocol::parse_job_spec(*document);
  }
  return 0;
}
