#include "cli/completion.hpp"

#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"

namespace weir::cli {

void add_completion(CLI::App& program, Choice& choice) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("completion", "Print a script that completes weir's commands in a shell");
  command->add_option("shell", *shell, "e.g. source <(weir completion bash)")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([&choice, &program, shell] {
    choice.run = [&program, shell](const Settings&) {
      print(completion_script(program, *shell));
      return int{ExitCode::ok};
    };
  });
}

}  // namespace weir::cli
