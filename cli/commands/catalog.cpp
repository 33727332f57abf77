#include <nlohmann/json.hpp>

#include "base/errc.hpp"
#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::string section;
};

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
  constexpr std::pair<const char*, const char*> limits[] = {
      {"exclusiveMinimum", "> "}, {"minimum", ">= "}, {"exclusiveMaximum", "< "}, {"maximum", "<= "}};
  for (const auto& [name, sign] : limits) {
    if (const auto& limit = member(schema, name); limit.is_number())
      line += std::string(", ") + sign + value_text(limit);
  }
  if (auto description = text(schema, "description"); !description.empty()) line += ": " + description;
  return line;
}

std::string section_text(const std::string& name, const nlohmann::json& entries) {
  std::string out = name + "\n";
  for (const nlohmann::json& entry : entries) {
    out += "  " + text(entry, "name") + "  " + text(entry, "summary") + "\n";
    for (const auto& [parameter, schema] : member(member(entry, "params"), "properties").items()) {
      out += "      " + parameter + "  " + describe(schema) + "\n";
    }
    if (auto memory = text(entry, "default_memory"); !memory.empty()) out += "      memory: " + memory + "\n";
  }
  return out;
}

int catalog(const Settings& settings, const Options& options) {
  auto answer = Api(settings).get("/api/v1/catalog");
  if (!answer) return complain(answer.error());
  if (!options.section.empty() && !answer->contains(options.section)) {
    return complain({Errc::not_found, "this head's catalog has no " + options.section});
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

void add_catalog(CLI::App& program, Choice& choice) {
  auto options = std::make_shared<Options>();
  add_command(program, choice, "catalog", "What jobs can be made of, with parameters, defaults and limits", options,
              catalog)
      ->add_option("section", options->section, "Only this part")
      ->check(CLI::IsMember(
          {"models", "datasets", "compressors", "memories", "modes", "topologies", "optimizers", "lr_schedules"}));
}

}  // namespace weir::cli
