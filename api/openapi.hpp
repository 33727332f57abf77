#pragma once

#include <string>

namespace weir::api {

/// The OpenAPI document as it is served: openapi.json with this version and the job spec's schema inserted.
std::string openapi_document(const std::string& version);

}  // namespace weir::api
