#include "cli/unknown_command.hpp"

#include <algorithm>
#include <vector>

#include "protocol/schema.hpp"

namespace weir::cli {
namespace {

/// An option of `command`, or of those above it, which may follow it.
const CLI::Option* option_of(const CLI::App* command, const std::string& name) {
  for (; command != nullptr; command = command->get_parent()) {
    if (const auto* option = command->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

std::string refusal(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  for (const auto* known : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(known->get_name());
  }
  const std::string nearest = protocol::nearest_name(word, names);
  std::string text = "there is no command \"" + word + "\"; ";
  if (!nearest.empty()) return text + "did you mean \"" + nearest + "\"?";
  text += "there are ";
  for (const auto& name : names) text += (&name == &names.front() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::optional<std::string> unknown_command(const CLI::App& program, int count, const char* const* words) {
  const CLI::App* command = &program;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word.starts_with('-')) {
      const auto* option = option_of(command, word.substr(0, word.find('=')));
      if (option == nullptr) return std::nullopt;
      if (option->get_items_expected_min() > 0 && word.find('=') == std::string::npos) ++i;  // its value follows
      continue;
    }
    const auto below = command->get_subcommands([](const CLI::App*) { return true; });
    if (below.empty()) return std::nullopt;  // what follows is for this command
    const auto named =
        std::find_if(below.begin(), below.end(), [&word](const CLI::App* one) { return one->get_name() == word; });
    if (named == below.end()) return refusal(*command, word);
    command = *named;
  }
  return std::nullopt;
}

}  // namespace weir::cli
