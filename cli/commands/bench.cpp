#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/errc.hpp"
#include "bench/actors.hpp"
#include "bench/schedule.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::string name;
  bench::Options bench;
};

/// Benchmarks that need tensors run in the worker program, which replaces this process.
int run_in_worker(const Options& options) {
  const std::string program = worker_program().string();
  if (program.empty()) {
    return complain({Errc::io, "weir bench " + options.name + " needs the program weir-worker beside " +
                                   own_program().string() + ": install it, or build the target weir-worker"});
  }
  std::vector<std::string> words{program, "bench", options.name};
  if (options.bench.json) words.emplace_back("--json");
  if (!options.bench.filter.empty()) words.insert(words.end(), {"--filter", options.bench.filter});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  return complain({Errc::io, "cannot start " + program + ": " + std::strerror(errno)});
}

int run(const Settings& settings, const Options& given) {
  Options options = given;
  options.bench.json = settings.json;
  if (options.name == "actors") return bench::actors(options.bench);
  if (options.name == "schedule") return bench::schedule(options.bench);
  return run_in_worker(options);
}

}  // namespace

void add_bench(CLI::App& program, Choice& choice) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(program, choice, "bench",
                                  "Measure a part of weir beside the physical limit of this machine", options, run);
  command->add_option("name", options->name, "What to measure")
      ->required()
      ->check(CLI::IsMember(
          {"actors", "compressors", "exchange", "gathering", "scaling", "schedule", "train", "variance"}));
  command->add_option("--filter", options->bench.filter, "Only rows whose name matches this regular expression")
      ->check(bench::filter_problem);
}

}  // namespace weir::cli
