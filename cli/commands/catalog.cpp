#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/errc.hpp"
#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::string_view built_in;
  std::string section;
};

/// ", > 0, <= 1"
std::string limits_text(const nlohmann::json& schema) {
  constexpr std::pair<const char*, const char*> limits[] = {{"exclusiveMinimum", "> "},
                                                            {"minimum", ">= "},
                                                            {"exclusiveMaximum", "< "},
                                                            {"maximum", "<= "},
                                                            {"multipleOf", "a multiple of "}};
  std::string line;
  for (const auto& [name, sign] : limits) {
    if (const auto& limit = member(schema, name); limit.is_number())
      line += std::string(", ") + sign + value_text(limit);
  }
  if (const auto& other = text(schema, "atMost"); !other.empty()) line += ", <= " + other;
  return line;
}

/// ", only where atoms is svd": what others must be like for it to change anything.
std::string conditions_text(const nlohmann::json& schema) {
  std::string line;
  for (const auto& [other, condition] : member(schema, "onlyWhere").items()) {
    line += line.empty() ? ", only where " : " and ";
    line += other;
    if (condition.contains("maxItems")) {
      line += " has at most " + value_text(condition.at("maxItems")) + " items";
    } else if (condition.contains("const")) {
      line += " is " + value_text(condition.at("const"));
    } else if (condition.contains("enum")) {
      std::string choices;
      for (const nlohmann::json& one : condition.at("enum"))
        choices += (choices.empty() ? "" : " or ") + value_text(one);
      line += " is " + choices;
    } else {
      line += limits_text(condition).substr(1);
    }
  }
  return line;
}

/// "number, default 0.001, > 0, <= 1: the share of entries that is sent"
std::string describe(const nlohmann::json& schema) {
  const nlohmann::json& type = member(schema, "type");
  std::string line = type.is_array() ? "" : value_text(type);
  if (type.is_array()) {
    for (const nlohmann::json& one : type) line += (line.empty() ? "" : " or ") + value_text(one);
  }
  if (const auto& choices = member(schema, "enum"); choices.is_array()) {
    line = "one of";
    for (const nlohmann::json& one : choices) line += " " + value_text(one);
  }
  if (const auto& value = member(schema, "default"); !value.is_null()) line += ", default " + value_text(value);
  line += limits_text(schema) + conditions_text(schema);
  if (auto description = text(schema, "description"); !description.empty()) line += ": " + description;
  return line;
}

/// The properties that a compressor declares, in one line.
std::string traits_text(const nlohmann::json& traits) {
  const auto is = [&](const char* name) { return traits.value(name, false); };
  std::string line = is("lossless") ? "lossless" : is("biased") ? "biased" : "unbiased";
  if (const auto& bound = member(traits, "error_bound"); bound.is_number() && !is("lossless")) {
    std::ostringstream text;
    text << bound.get<double>();
    line += ", squared error at most " + text.str() + " of the gradient's";
  }
  line += is("linear") ? ", summed on the wire" : ", gathered";
  if (const auto& passes = member(traits, "passes"); passes.size() > 1) {
    line += " in " + std::to_string(passes.size()) + " passes";
  }
  if (is("votes")) line += ", majority vote";
  if (is("stateful")) line += ", keeps state";
  if (is("warmup")) line += ", warms up";
  return line;
}

std::string section_text(const std::string& name, const nlohmann::json& entries) {
  std::string out = name + "\n";
  for (const nlohmann::json& entry : entries) {
    out += "  " + text(entry, "name") + "  " + text(entry, "summary") + "\n";
    for (const auto& [parameter, schema] : member(member(entry, "params"), "properties").items()) {
      out += "      " + parameter + "  " + describe(schema) + "\n";
    }
    if (const auto& traits = member(entry, "traits"); traits.is_object()) out += "      " + traits_text(traits) + "\n";
    if (auto memory = text(entry, "default_memory"); !memory.empty()) {
      std::string others;
      for (const auto& other : member(entry, "memories")) {
        if (other != memory) others += (others.empty() ? "; also fits " : ", ") + value_text(other);
      }
      out += "      memory: " + memory + others + "\n";
    }
  }
  return out;
}

/// The catalog of the head at --address if that was given, else that of this build, which needs no head.
Result<nlohmann::json> find_catalog(const Settings& settings, const Options& options) {
  if (!settings.address.empty()) return Api(settings).get("/api/v1/catalog");
  auto built_in = nlohmann::json::parse(options.built_in, nullptr, false);
  if (built_in.is_discarded()) return Error{Errc::internal, "this program has no catalog of its own"};
  return built_in;
}

int catalog(const Settings& settings, const Options& options) {
  auto answer = find_catalog(settings, options);
  if (!answer) return complain(answer.error());
  if (!options.section.empty() && !answer->contains(options.section)) {
    return complain({Errc::not_found, "this catalog has no " + options.section});
  }
  if (settings.json) {
    print(options.section.empty() ? *answer
                                  : nlohmann::json{{options.section, member(*answer, options.section.c_str())}});
    return ExitCode::ok;
  }
  std::string out;
  for (const auto& [name, entries] : answer->items()) {
    if (!entries.is_array() || (!options.section.empty() && name != options.section)) continue;
    out += (out.empty() ? "" : "\n") + section_text(name, entries);
  }
  print(out);
  return ExitCode::ok;
}

}  // namespace

void add_catalog(CLI::App& program, Choice& choice, std::string_view built_in) {
  auto options = std::make_shared<Options>();
  options->built_in = built_in;
  add_command(program, choice, "catalog",
              "What jobs can be made of, with parameters, defaults and limits: as this program was built, or what the "
              "head at --address offers",
              options, catalog)
      ->add_option("section", options->section, "Only this part")
      ->check(CLI::IsMember(
          {"models", "datasets", "compressors", "memories", "modes", "topologies", "optimizers", "lr_schedules"}));
}

}  // namespace weir::cli
