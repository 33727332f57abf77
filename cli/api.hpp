#pragma once

#include <cstddef>
#include <cstdint>
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

  /// The first entries of a list that comes in pages.
  struct Listing {
    nlohmann::json items = nlohmann::json::array();
    nlohmann::json next;  ///< null if there are no more
  };
  /// Reads pages until there are `most` entries of the member `name`. `query` is what the list is asked for, without
  /// limit and cursor: "state=RUNNING&" or "".
  Result<Listing> list(const std::string& path, const std::string& name, const std::string& query = "",
                       std::size_t most = SIZE_MAX) const;

  /// The body of what is no JSON, byte for byte.
  Result<std::string> body(const std::string& target) const;

  /// Makes any request whose answer is JSON.
  Result<nlohmann::json> call(HttpCall call) const;

  /// The JSON of an answer; null if it has no body.
  Result<nlohmann::json> read(const HttpAnswer& answer) const;

  const HttpClient& client() const { return client_; }

 private:
  HttpClient client_;
};

/// Encodes a text as one segment of a path or one value of a query.
std::string percent_encoded(const std::string& text);

}  // namespace weir::cli
