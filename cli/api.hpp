#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "cli/http_client.hpp"
#include "cli/settings.hpp"

namespace weir::cli {

/// The head's JSON API for commands: answers that are not 2xx become errors (see answer_error).
class Api {
 public:
  explicit Api(const Settings& settings) : client_(head_address(settings), token_for_head(settings), settings.cacert) {}

  Result<nlohmann::json> get(const std::string& target) const { return call({.target = target}); }
  Result<nlohmann::json> post(const std::string& target, const nlohmann::json& body) const {
    return call({.verb = Verb::post, .target = target, .body = body.dump()});
  }
  Result<nlohmann::json> post(const std::string& target) const { return call({.verb = Verb::post, .target = target}); }
  Result<nlohmann::json> remove(const std::string& target) const {
    return call({.verb = Verb::delete_, .target = target});
  }

  /// Makes any request whose answer is JSON.
  Result<nlohmann::json> call(HttpCall call) const;

  const HttpClient& client() const { return client_; }

 private:
  HttpClient client_;
};

/// Encodes a text as one segment of a path or one value of a query.
std::string percent_encoded(const std::string& text);

}  // namespace weir::cli
