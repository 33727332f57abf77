#include "cli/up_arguments.hpp"

#include <algorithm>
#include <cmath>

#include "cli/format.hpp"

namespace weir::cli {
namespace {

double amount(const protocol::Resources& resources, const std::string& name) {
  const auto found = resources.find(name);
  return found == resources.end() ? 0 : found->second;
}

/// At least two cores, so that a machine of few can run a job of several workers, too.
std::string share(const UpOptions& options, const protocol::Resources& machine) {
  const unsigned nodes = std::max(1U, options.nodes);
  const double cpus =
      options.cpus_per_node > 0 ? options.cpus_per_node : std::max(2.0, std::floor(amount(machine, "cpu") / nodes));
  const auto memory = static_cast<std::uint64_t>(amount(machine, "memory") / nodes);
  return "cpu=" + value_text(cpus) + ",memory=" + std::to_string(memory);
}

}  // namespace

std::vector<std::string> head_arguments(const std::filesystem::path& data_dir, const UpOptions& options) {
  std::vector<std::string> arguments{"head",         "--data-dir", data_dir.string(), "--listen",
                                     options.listen, "--http",     options.http};
  for (const std::string& host : options.allow_hosts) arguments.insert(arguments.end(), {"--allow-host", host});
  if (!options.public_url.empty()) arguments.insert(arguments.end(), {"--public-url", options.public_url});
  if (options.insecure) arguments.emplace_back("--insecure");
  return arguments;
}

std::vector<std::string> node_arguments(unsigned number, const std::string& control, const UpOptions& options,
                                        const protocol::Resources& machine) {
  std::vector<std::string> arguments{
      "node", "--head", control, "--name", "node-" + std::to_string(number), "--resources", share(options, machine)};
  if (!options.modules.empty()) arguments.insert(arguments.end(), {"--modules", options.modules});
  return arguments;
}

}  // namespace weir::cli
