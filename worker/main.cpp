// weir-worker: the program that has LibTorch. Node agents start it; `weir` starts it for commands that need tensors.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "actors/trainer.hpp"
#include "bench/compressors.hpp"
#include "bench/train.hpp"
#include "runtime/actor_system.hpp"
#include "worker/catalog.hpp"
#include "worker/run.hpp"

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
  return types;
}

void add_common(CLI::App& command, weir::bench::Options& options) {
  command.add_flag("--json", options.json, "JSON lines on standard output instead of a table");
  command.add_option("--filter", options.filter, "only rows whose name matches this regular expression");
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app("weir-worker: hosts the actors that need LibTorch");
  app.require_subcommand(1);
  auto* run = app.add_subcommand("run", "serve one worker slot; started by a node agent");
  auto* catalog = app.add_subcommand("catalog", "print everything a job can name, as JSON");
  auto* bench = app.add_subcommand("bench", "measure");
  bench->require_subcommand(1);

  weir::bench::Options options;
  auto* compressors = bench->add_subcommand("compressors", "encode and decode, beside memcpy");
  add_common(*compressors, options);
  weir::bench::TrainOptions train_options;
  auto* train = bench->add_subcommand("train", "LeNet's training step, beside its computation alone");
  add_common(*train, train_options.common);
  train->add_option("--steps", train_options.steps, "steps measured")->check(CLI::Range(10, 100000));
  train->add_option("--batch-size", train_options.batch_size, "samples per rank and step")->check(CLI::Range(1, 65536));
  train->add_option("--rank", train_options.rank, "be this rank only; the others run elsewhere");
  train->add_option("--peers", train_options.peers, "HOST:PORT of every rank, in rank order")->delimiter(',');
  CLI11_PARSE(app, count, arguments);

  if (run->parsed()) return weir::worker::run(actor_types());
  if (catalog->parsed()) {
    std::cout << weir::worker::catalog().dump(2) << '\n';
    return 0;
  }
  if (compressors->parsed()) return weir::bench::compressors(options);
  return weir::bench::train(train_options);
}
