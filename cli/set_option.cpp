#include "cli/set_option.hpp"

#include <algorithm>

#include "base/errc.hpp"
#include "base/utf8.hpp"

namespace weir::cli {

Result<void> apply_set(nlohmann::json& spec, const std::string& assignment) {
  if (!is_utf8(assignment)) {
    return Error{Errc::invalid_argument, "--set " + assignment + ": a job spec is JSON, and this is not UTF-8"};
  }
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos) {
    return Error{Errc::invalid_argument, "--set " + assignment + ": write it as PATH=VALUE, e.g. training.epochs=3"};
  }
  const std::string path = assignment.substr(0, equals);
  const std::string text = assignment.substr(equals + 1);
  nlohmann::json* place = &spec;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, dot - begin);
    if (name.empty()) return Error{Errc::invalid_argument, "--set " + assignment + ": an empty name in the path"};
    if (!place->is_object() && !place->is_null()) {
      return Error{Errc::invalid_argument, "--set " + assignment + ": \"" + path.substr(0, begin - 1) + "\" is " +
                                               place->dump() + ", no object"};
    }
    place = &(*place)[name];
    begin = dot + 1;
  }
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  *place = value.is_discarded() ? nlohmann::json(text) : std::move(value);
  return {};
}

}  // namespace weir::cli
