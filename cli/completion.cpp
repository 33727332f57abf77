#include "cli/completion.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

namespace weir::cli {
namespace {

/// Calls `visit` with each command's words after the program's name ("", "job", "job list", ...).
void walk(const CLI::App& app, const std::string& path,
          const std::function<void(const std::string&, const CLI::App&)>& visit) {
  visit(path, app);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    walk(*command, path.empty() ? command->get_name() : path + " " + command->get_name(), visit);
  }
}

std::string names_of_options(const CLI::App& app) {
  std::string names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names += " --" + name;
    for (const std::string& name : option->get_snames()) names += " -" + name;
  }
  return names;
}

std::string names_of_commands(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names += " " + command->get_name();
  return names;
}

std::string bash(const CLI::App& program) {
  std::string cases;
  walk(program, "", [&](const std::string& path, const CLI::App& app) {
    std::string words = names_of_commands(app) + names_of_options(app);
    if (!path.empty()) words += names_of_options(program);
    cases += "    \"" + path + "\") words=\"" + words.substr(1) + "\" ;;\n";
  });
  std::string paths;
  walk(program, "", [&](const std::string& path, const CLI::App&) {
    if (!path.empty()) paths += "|" + path;
  });
  return R"(_weir() {
  local current="${COMP_WORDS[COMP_CWORD]}" path="" words="" word next i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${COMP_WORDS[i]}"
    next="${path:+$path }$word"
    case "|)" +
         paths.substr(1) + R"(|" in *"|$next|"*) path="$next" ;; esac
  done
  case "$path" in
)" + cases +
         R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}
complete -F _weir weir
)";
}

std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\'");
  return "'" + text + "'";
}

std::string fish(const CLI::App& program) {
  std::string script = "complete -c weir -f\n";
  walk(program, "", [&](const std::string& path, const CLI::App& app) {
    // Offered once every word of the command's path has been typed, and none of its own commands yet.
    std::string condition;
    for (std::size_t begin = 0; begin < path.size();) {
      const std::size_t end = std::min(path.find(' ', begin), path.size());
      condition += "__fish_seen_subcommand_from " + path.substr(begin, end - begin) + "; and ";
      begin = end + 1;
    }
    const std::string commands = names_of_commands(app);
    const std::string unseen = commands.empty() ? "true" : "not __fish_seen_subcommand_from" + commands;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      script += "complete -c weir -n " + quoted(condition + unseen) + " -a " + command->get_name() + " -d " +
                quoted(command->get_description()) + "\n";
    }
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_lnames().empty()) continue;
      script += "complete -c weir -n " + quoted(condition + "true") + " -l " + option->get_lnames().front();
      if (!option->get_snames().empty()) script += " -s " + option->get_snames().front();
      script += " -d " + quoted(option->get_description()) + "\n";
    }
  });
  script += "complete -c weir -n '__fish_seen_subcommand_from submit' -F\n";
  return script;
}

}  // namespace

std::string completion_script(const CLI::App& program, const std::string& shell) {
  if (shell == "fish") return fish(program);
  if (shell == "zsh") return "#compdef weir\nautoload -U +X bashcompinit && bashcompinit\n" + bash(program);
  return bash(program);
}

}  // namespace weir::cli
