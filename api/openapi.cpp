#include "api/openapi.hpp"

#include <nlohmann/json.hpp>

#include "api/openapi_text.hpp"
#include "protocol/job_spec.hpp"

namespace weir::api {

std::string openapi_document(const std::string& version) {
  auto document = nlohmann::ordered_json::parse(openapi_text);
  document["info"]["version"] = version;
  nlohmann::json spec = protocol::job_spec_schema();
  spec.erase("$schema");
  document["components"]["schemas"]["JobSpec"] = spec;
  return document.dump(2) + "\n";
}

}  // namespace weir::api
