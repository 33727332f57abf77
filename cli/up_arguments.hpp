#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "protocol/resources.hpp"

/// The command lines of the head and the nodes that `weir up` starts.
namespace weir::cli {

struct UpOptions {
  unsigned nodes = 2;
  double cpus_per_node = 0;  ///< 0: its share of the machine's
  std::string listen;
  std::string http = "127.0.0.1:8265";
  std::vector<std::string> allow_hosts;
  std::string public_url;
  bool insecure = false;
  std::string modules;
};

std::vector<std::string> head_arguments(const std::filesystem::path& data_dir, const UpOptions& options);

/// `number` is 1, 2, ...; `control` is where the head listens for nodes; `machine` is what this machine has, which the
/// nodes divide.
std::vector<std::string> node_arguments(unsigned number, const std::string& control, const UpOptions& options,
                                        const protocol::Resources& machine);

}  // namespace weir::cli
