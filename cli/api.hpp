#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "cli/http_client.hpp"
#include "cli/settings.hpp"

namespace weir::cli {

/// The head's JSON API as commands use it: answers that are not 2xx are errors (see answer_error).
class Api {
 public:
  explicit Api(const Settings& settings) : client_(head_address(settings), head_token(settings)) {}

  Result<nlohmann::json> get(const std::string& target) const { return call(Verb::get, target, std::nullopt); }
  Result<nlohmann::json> post(const std::string& target, const nlohmann::json& body) const {
    return call(Verb::post, target, body.dump());
  }
  Result<nlohmann::json> post(const std::string& target) const { return call(Verb::post, target, std::nullopt); }
  Result<nlohmann::json> remove(const std::string& target) const { return call(Verb::delete_, target, std::nullopt); }

  /// The body of an answer that is not JSON.
  Result<std::string> text(const std::string& target) const;

  const HttpClient& client() const { return client_; }

 private:
  Result<nlohmann::json> call(Verb verb, const std::string& target, std::optional<std::string> body) const;

  HttpClient client_;
};

/// A text as one segment of a path or one value of a query.
std::string percent_encoded(const std::string& text);

}  // namespace weir::cli
