#include "base/json_text.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/errc.hpp"

namespace weir {
namespace {

using nlohmann::json;

/// Follows a text without keeping its values, and stops at the first fault.
class Watch final : public json::json_sax_t {
 public:
  std::string fault;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }

  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    fault = "has the key \"" + name + "\" twice in one object";
    return false;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...": the tag is of no use to the client.
    const std::string_view what = e.what();
    const auto tag = what.find("] ");
    fault = "is not JSON: " + std::string(tag == std::string_view::npos ? what : what.substr(tag + 2));
    return false;
  }

 private:
  bool enter() {
    keys_.emplace_back();
    if (keys_.size() <= json_depth_max) return true;
    fault = "is nested deeper than " + std::to_string(json_depth_max) + " levels";
    return false;
  }

  bool leave() {
    keys_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> keys_;  ///< of each open object; that of an array stays empty
};

}  // namespace

Result<json> parse_json_text(std::string_view text) {
  Watch watch;
  if (!json::sax_parse(text, &watch)) return Error{Errc::malformed, watch.fault};
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace weir
