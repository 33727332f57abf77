#include "api/openapi.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "api/openapi_text.hpp"
#include "protocol/job_spec.hpp"

namespace weir::api {
namespace {

using nlohmann::ordered_json;

/// Adds the answers that do not come from an operation's own handler, so that any operation may give them.
void add_common_responses(const std::string& method, ordered_json& operation) {
  static constexpr std::pair<const char*, const char*> common[] = {
      {"405", "MethodNotAllowed"}, {"408", "RequestTimeout"},     {"413", "ContentTooLarge"},
      {"414", "TargetTooLong"},    {"417", "ExpectationFailed"},  {"500", "InternalError"},
      {"501", "NotImplemented"},   {"505", "VersionNotSupported"}};
  auto& responses = operation.at("responses");
  const auto add = [&responses](const std::string& status, const std::string& name) {
    if (!responses.contains(status)) responses[status] = {{"$ref", "#/components/responses/" + name}};
  };
  for (const auto& [status, name] : common) add(status, name);
  if (method != "get") add("412", "PreconditionFailed");
  if (method == "get" && responses.contains("200")) {
    const auto& content = responses["200"].at("content");  // what is not streamed has an ETag
    if (!content.contains("text/event-stream") && !content.contains("application/octet-stream"))
      add("304", "NotModified");
  }
}

}  // namespace

std::string openapi_document(const std::string& version) {
  auto document = nlohmann::ordered_json::parse(openapi_text);
  document["info"]["version"] = version;
  for (auto& methods : document["paths"])
    for (auto& [method, operation] : methods.items()) add_common_responses(method, operation);
  nlohmann::json spec = protocol::job_spec_schema();
  spec.erase("$schema");
  document["components"]["schemas"]["JobSpec"] = spec;
  return document.dump(2) + "\n";
}

}  // namespace weir::api
