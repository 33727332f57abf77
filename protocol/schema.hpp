#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace weir::protocol {

/// One error in a document: its place (an RFC 6901 JSON pointer, "" is the whole document), a message for people, and
/// the nearest correct name, if one is near.
struct Problem {
  std::string pointer;
  std::string message;
  std::string suggestion = {};

  friend bool operator==(const Problem&, const Problem&) = default;
};

/// How many problems of a document are told of.
inline constexpr std::size_t problems_max = 100;

/// Checks `document` against a JSON schema and fills in the defaults of absent properties, in place. Returns the
/// problems found, in document order, as first_of() lists them; none means the document is valid and complete.
///
/// The subset of JSON Schema 2020-12 that is understood: type (a name or a list of names), properties, required,
/// additionalProperties (false, or a schema for the others), propertyNames (maxLength), maxProperties, enum, const,
/// minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minLength, maxLength, items, minItems, maxItems,
/// default. The schema is ours and trusted; the document is not: it may be anything that parses.
///
/// And three keywords of our own, for what the properties of an object are to each other. Of a property, "atMost" names
/// another that it must not be more than, and "onlyWhere", {other: schema, ...}, says what others must be like for it
/// to change anything; elsewhere it must have its default. Of an object, "productsAtMost", [{"of": names, "maximum",
/// "what"}, ...], limits products of numbers.
std::vector<Problem> check_and_complete(const nlohmann::json& schema, nlohmann::json& document,
                                        std::string_view pointer = "");

/// The first of the problems, and one more that says so if there are others.
std::vector<Problem> first_of(std::vector<Problem> problems);

/// The candidate nearest to `name` by edit distance, or "" if none is near enough to be what was meant.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// `pointer` extended by one reference token, escaped.
std::string pointer_to(std::string_view pointer, std::string_view token);

}  // namespace weir::protocol
