// weir-worker: the program that has LibTorch. Node agents start it; `weir` starts it for commands that need tensors.

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "actors/parameter_server.hpp"
#include "actors/state_server.hpp"
#include "actors/trainer.hpp"
#include "runtime/actor_system.hpp"
#include "worker/bench_commands.hpp"
#include "worker/catalog.hpp"
#include "worker/devices.hpp"
#include "worker/run.hpp"
#include "worker/tensor_memory.hpp"

namespace {

/// The one place that knows every actor type.
weir::worker::ActorTypes actor_types() {
  using weir::worker::ActorSetting;
  weir::worker::ActorTypes types;
  types.add("trainer", [](const ActorSetting& setting, const std::string& name) -> weir::Result<std::uint64_t> {
    const auto trainer = setting.system.spawn<weir::actors::Trainer>(name, setting.coordinator);
    if (!trainer) return trainer.error();
    return trainer->address().actor;
  });
  types.add("parameter_server",
            [](const ActorSetting& setting, const std::string& name) -> weir::Result<std::uint64_t> {
              const auto server = setting.system.spawn<weir::actors::ParameterServer>(name, setting.coordinator);
              if (!server) return server.error();
              return server->address().actor;
            });
  types.add("state_server", [](const ActorSetting& setting, const std::string& name) -> weir::Result<std::uint64_t> {
    const auto server = setting.system.spawn<weir::actors::StateServer>(name, setting.coordinator);
    if (!server) return server.error();
    return server->address().actor;
  });
  return types;
}

int print_catalog() {
  std::cout << weir::worker::catalog().dump(2) << '\n';
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app("weir-worker: hosts the actors that need LibTorch");
  app.require_subcommand(1);
  std::function<int()> chosen;
  app.add_subcommand("run", "serve one worker slot; started by a node agent")->callback([&] {
    chosen = [] { return weir::worker::run(actor_types()); };
  });
  app.add_subcommand("catalog", "print everything a job can name, as JSON")->callback([&] { chosen = print_catalog; });
  auto* devices = app.add_subcommand("devices", "say on what LibTorch computes here");
  bool devices_as_json = false;
  devices->add_flag("--json", devices_as_json, "and what it finds of CUDA, cuDNN and NCCL, as JSON");
  devices->callback([&] { chosen = [&] { return weir::worker::print_devices(devices_as_json); }; });
  weir::worker::add_bench(app, chosen);
  CLI11_PARSE(app, count, arguments);

  weir::worker::TensorMemory::install();
  return chosen();
}
