#include "protocol/catalog.hpp"

#include "base/errc.hpp"

namespace weir::protocol {

Error no_such_name(std::string_view kind, std::string_view name, const std::vector<std::string>& known) {
  std::string text = "there is no " + std::string(kind) + " '" + std::string(name) + "'";
  if (const auto nearest = nearest_name(name, known); !nearest.empty()) {
    return {Errc::not_found, text + "; did you mean '" + nearest + "'?"};
  }
  text += "; there is";
  for (const auto& other : known) text += " " + other;
  return {Errc::not_found, text};
}

Error bad_params(std::string_view kind, std::string_view name, const std::vector<Problem>& problems) {
  const Problem& first = problems.front();
  return {Errc::invalid_argument,
          std::string(kind) + " " + std::string(name) + ": /params" + first.pointer + ": " + first.message};
}

}  // namespace weir::protocol
