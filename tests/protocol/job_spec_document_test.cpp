// docs/job_spec.md says what job_spec.schema.json says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace weir::protocol {
namespace {

using Json = nlohmann::ordered_json;  // fields in the order of the file

std::string read(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string quoted(const Json& value) {
  return "`" + (value.is_string() ? value.get<std::string>() : value.dump()) + "`";
}

/// "1 to 1024", "above 0, at most 5", or "".
std::string range_of(const Json& field) {
  const bool above = field.contains("exclusiveMinimum");
  const Json least = field.value(above ? "exclusiveMinimum" : "minimum", Json());
  const Json most = field.value("maximum", Json());
  if (least.is_null()) return "";
  if (most.is_null()) return (above ? "above " : "at least ") + least.dump();
  return above ? "above " + least.dump() + ", at most " + most.dump() : least.dump() + " to " + most.dump();
}

std::string type_of(const Json& field) {
  std::string text;
  if (field.contains("enum")) {
    for (const Json& value : field["enum"]) text += (text.empty() ? "" : ", ") + quoted(value);
    return text;
  }
  const Json types = field["type"].is_array() ? field["type"] : Json::array({field["type"]});
  for (const Json& type : types) {
    const std::string name = type == "string" ? "text" : type.get<std::string>();
    text += (text.empty() ? "" : " or ") + name;
    const std::string range = type == "integer" || type == "number" ? range_of(field) : "";
    if (!range.empty()) text += " (" + range + ")";
  }
  if (field.contains("additionalProperties") && field["additionalProperties"].is_object())
    text += ", each value: " + type_of(field["additionalProperties"]);
  return text;
}

/// A row for each field that is no object of known fields, and for each such object with a description.
std::string rows_of(const Json& object, const std::string& path) {
  const Json required = object.value("required", Json::array());
  std::string rows;
  for (const auto& [name, field] : object["properties"].items()) {
    const bool needed = std::find(required.begin(), required.end(), name) != required.end();
    const std::string usual = needed ? "required" : field.contains("default") ? quoted(field["default"]) : "";
    const bool has_fields = field.contains("properties");
    if (!has_fields || field.contains("description")) {
      rows += "| `" + path + name + "` | " + type_of(field) + " | " + usual + " | " + field.value("description", "") +
              " |\n";
    }
    if (has_fields) rows += rows_of(field, path + name + ".");
  }
  return rows;
}

TEST(JobSpecDocument, SaysWhatTheSchemaSays) {
  const std::string is = read(WEIR_JOB_SPEC_DOCUMENT);
  const std::string mark = "<!-- fields -->\n";
  const auto begin = is.find(mark);
  const auto end = is.find("<!-- end -->", begin);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos);
  const std::string table =
      "| field | is | by default | |\n|---|---|---|---|\n" + rows_of(Json::parse(read(WEIR_JOB_SPEC_SCHEMA)), "");
  const std::string should = is.substr(0, begin + mark.size()) + table + is.substr(end);
  if (std::getenv("WEIR_WRITE_DOCS") != nullptr) std::ofstream(WEIR_JOB_SPEC_DOCUMENT) << should;
  EXPECT_EQ(is, should) << "WEIR_WRITE_DOCS=1 writes it";
}

}  // namespace
}  // namespace weir::protocol
