// weir-worker: the program that has LibTorch. Node agents start it; `weir` starts it for commands that need tensors.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "actors/parameter_server.hpp"
#include "actors/state_server.hpp"
#include "actors/trainer.hpp"
#include "bench/all_reduce.hpp"
#include "bench/compressors.hpp"
#include "bench/exchange.hpp"
#include "bench/gathering.hpp"
#include "bench/scaling.hpp"
#include "bench/train.hpp"
#include "bench/variance.hpp"
#include "runtime/actor_system.hpp"
#include "worker/catalog.hpp"
#include "worker/devices.hpp"
#include "worker/run.hpp"
#include "worker/tensor_memory.hpp"
#include "worker/threads.hpp"

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

void add_common(CLI::App& command, weir::bench::Options& options) {
  command.add_flag("--json", options.json, "JSON lines on standard output instead of a table");
  command.add_option("--filter", options.filter, "only rows whose name matches this regular expression");
}

void add_place(CLI::App& command, weir::bench::PlaceOptions& place) {
  command.add_option("--rank", place.rank, "be this rank only; the others run elsewhere");
  command.add_option("--peers", place.peers, "HOST:PORT of every rank, in rank order")->delimiter(',');
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app("weir-worker: hosts the actors that need LibTorch");
  app.require_subcommand(1);
  auto* run = app.add_subcommand("run", "serve one worker slot; started by a node agent");
  auto* catalog = app.add_subcommand("catalog", "print everything a job can name, as JSON");
  auto* devices = app.add_subcommand("devices", "say on what LibTorch computes here");
  bool devices_as_json = false;
  devices->add_flag("--json", devices_as_json, "and what it finds of CUDA, cuDNN and NCCL, as JSON");
  auto* bench = app.add_subcommand("bench", "measure");
  bench->require_subcommand(1);

  weir::bench::Options options;
  auto* compressors = bench->add_subcommand("compressors", "encode and decode, beside memcpy");
  add_common(*compressors, options);
  auto* exchange =
      bench->add_subcommand("exchange", "collectives, and a job's exchange, beside bare copies and sockets");
  add_common(*exchange, options);
  auto* gathering = bench->add_subcommand("gathering", "the mean of many ranks' payloads, beside the bytes it touches");
  add_common(*gathering, options);
  weir::bench::TrainOptions train_options;
  auto* train = bench->add_subcommand("train", "LeNet's training step, beside its computation alone");
  add_common(*train, train_options.common);
  train->add_option("--steps", train_options.steps, "steps measured")->check(CLI::Range(1, 100000));
  train->add_option("--warmup", train_options.warmup, "steps before, not measured")->check(CLI::Range(0, 100000));
  train->add_option("--batch-size", train_options.batch_size, "samples per rank and step")->check(CLI::Range(1, 65536));
  train->add_option("--model", train_options.model, "a model of the catalog");
  std::string model_params = "{}";
  train->add_option("--model-params", model_params, "its parameters, as JSON");
  train->add_option("--topology", train_options.topology, "a topology of the catalog");
  add_place(*train, train_options.place);
  weir::bench::AllReduceOptions all_reduce_options;
  auto* all_reduce = bench->add_subcommand("all-reduce", "sums between this rank and those of other processes");
  add_common(*all_reduce, all_reduce_options.common);
  add_place(*all_reduce, all_reduce_options.place);
  all_reduce->add_option("--bytes", all_reduce_options.bytes, "sizes of the arrays")->delimiter(',')->required();
  all_reduce->add_option("--rounds", all_reduce_options.rounds, "sums measured")->check(CLI::Range(1, 1000000));
  all_reduce->add_option("--transport", all_reduce_options.transport, "auto: shared memory between ranks of one host")
      ->check(CLI::IsMember({"auto", "tcp"}));
  weir::bench::ScalingOptions scaling_options;
  auto* scaling = bench->add_subcommand("scaling", "step times of many workers on simulated networks");
  add_common(*scaling, scaling_options.common);
  scaling->add_option("--ranks", scaling_options.ranks, "sizes of the group")
      ->delimiter(',')
      ->check(CLI::Range(2, 4096));
  scaling->add_option("--gigabits", scaling_options.gigabits, "rates of the links, in Gbit/s")
      ->delimiter(',')
      ->check(CLI::Range(1e-3, 1e5));
  scaling->add_option("--latencies-ms", scaling_options.latencies_ms, "latencies of the links, in ms")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1e4));
  scaling->add_option("--compute-ms", scaling_options.compute_ms, "of a step without exchange, for all models")
      ->check(CLI::Range(0.0, 1e6));
  scaling->add_option("--threads", scaling_options.threads, "cells simulated side by side")->check(CLI::Range(1, 64));
  scaling->add_option("--frames-max", scaling_options.frames_max, "steps of more frames are predicted, not simulated");
  scaling->add_option("--costs", scaling_options.costs, "take the costs of coding from the rows in this file")
      ->check(CLI::ExistingFile);
  weir::bench::VarianceOptions variance_options;
  auto* variance = bench->add_subcommand("variance", "what unbiased compressors make of a gradient, at equal bytes");
  add_common(*variance, variance_options.common);
  variance->add_option("--model", variance_options.model, "a model of the catalog");
  variance->add_option("--model-params", model_params, "its parameters, as JSON");
  variance->add_option("--dataset", variance_options.dataset, "a dataset of the catalog");
  variance->add_option("--dataset-path", variance_options.dataset_path, "the folder of its files");
  variance->add_option("--steps", variance_options.steps, "of training before")->check(CLI::Range(0, 1000000));
  variance->add_option("--batch-size", variance_options.batch_size, "samples per step")->check(CLI::Range(1, 65536));
  variance->add_option("--repetitions", variance_options.repetitions, "encodings of a row")
      ->check(CLI::Range(1, 1000000));
  CLI11_PARSE(app, count, arguments);

  weir::worker::TensorMemory::install();
  if (run->parsed()) return weir::worker::run(actor_types());
  if (catalog->parsed()) {
    std::cout << weir::worker::catalog().dump(2) << '\n';
    return 0;
  }
  if (devices->parsed()) return weir::worker::print_devices(devices_as_json);
  if (compressors->parsed()) return weir::bench::compressors(options);
  if (exchange->parsed()) return weir::bench::exchange(options);
  if (gathering->parsed()) return weir::bench::gathering(options);
  if (scaling->parsed()) return weir::bench::scaling(scaling_options);
  if (all_reduce->parsed()) return weir::bench::all_reduce(all_reduce_options);
  const auto params_of_model = nlohmann::json::parse(model_params, nullptr, false);
  if (!params_of_model.is_object()) {
    std::cerr << "--model-params is no JSON object: " << model_params << '\n';
    return 2;
  }
  weir::worker::set_threads(1);
  variance_options.model_params = train_options.model_params = params_of_model;
  if (variance->parsed()) return weir::bench::variance(variance_options);
  return weir::bench::train(train_options);
}
