#include "worker/bench_commands.hpp"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/all_reduce.hpp"
#include "bench/compressors.hpp"
#include "bench/exchange.hpp"
#include "bench/gathering.hpp"
#include "bench/scaling.hpp"
#include "bench/train.hpp"
#include "bench/variance.hpp"
#include "worker/threads.hpp"

namespace weir::worker {
namespace {

using Chosen = std::function<int()>;

bench::Options& common_of(bench::Options& options) { return options; }
bench::Options& common_of(auto& options) { return options.common; }

/// `options` is shared with what the command line writes into.
template <class Options>
CLI::App& add(CLI::App& parent, Chosen& chosen, const std::string& name, const std::string& description,
              std::shared_ptr<Options> options, int (*measure)(const Options&)) {
  CLI::App& command = *parent.add_subcommand(name, description);
  bench::Options& common = common_of(*options);
  command.add_flag("--json", common.json, "JSON lines on standard output instead of a table");
  command.add_option("--filter", common.filter, "only rows whose name matches this regular expression")
      ->check(bench::filter_problem);
  command.callback([&chosen, options, measure] { chosen = [options, measure] { return measure(*options); }; });
  return command;
}

void add_place(CLI::App& command, bench::PlaceOptions& place) {
  command.add_option("--rank", place.rank, "be this rank only; the others run elsewhere");
  command.add_option("--peers", place.peers, "HOST:PORT of every rank, in rank order")->delimiter(',');
}

/// Options of a measurement of a model.
template <class Options>
struct OfModel : Options {
  std::string params_text = "{}";  ///< of the model
};

void add_model(CLI::App& command, auto& options) {
  command.add_option("--model", options.model, "a model of the catalog");
  command.add_option("--model-params", options.params_text, "its parameters, as JSON");
}

/// On one thread.
template <class Options, int (*measure)(const Options&)>
int with_model(const OfModel<Options>& asked) {
  Options options = asked;
  options.model_params = nlohmann::json::parse(asked.params_text, nullptr, false);
  if (!options.model_params.is_object()) {
    std::cerr << "--model-params is no JSON object: " << asked.params_text << '\n';
    return 2;
  }
  set_threads(1);
  return measure(options);
}

void add_train(CLI::App& parent, Chosen& chosen) {
  const auto options = std::make_shared<OfModel<bench::TrainOptions>>();
  CLI::App& train = add(parent, chosen, "train", "LeNet's training step, beside its computation alone", options,
                        with_model<bench::TrainOptions, bench::train>);
  train.add_option("--steps", options->steps, "steps measured")->check(CLI::Range(1, 100000));
  train.add_option("--warmup", options->warmup, "steps before, not measured")->check(CLI::Range(0, 100000));
  train.add_option("--batch-size", options->batch_size, "samples per rank and step")->check(CLI::Range(1, 65536));
  add_model(train, *options);
  train.add_option("--topology", options->topology, "a topology of the catalog");
  add_place(train, options->place);
}

void add_all_reduce(CLI::App& parent, Chosen& chosen) {
  const auto options = std::make_shared<bench::AllReduceOptions>();
  CLI::App& all_reduce = add(parent, chosen, "all-reduce", "sums between this rank and those of other processes",
                             options, bench::all_reduce);
  add_place(all_reduce, options->place);
  all_reduce.add_option("--bytes", options->bytes, "sizes of the arrays")->delimiter(',')->required();
  all_reduce.add_option("--rounds", options->rounds, "sums measured")->check(CLI::Range(1, 1000000));
  all_reduce.add_option("--transport", options->transport, "auto: shared memory between ranks of one host")
      ->check(CLI::IsMember({"auto", "tcp"}));
}

void add_scaling(CLI::App& parent, Chosen& chosen) {
  const auto options = std::make_shared<bench::ScalingOptions>();
  CLI::App& scaling =
      add(parent, chosen, "scaling", "step times of many workers on simulated networks", options, bench::scaling);
  scaling.add_option("--ranks", options->ranks, "sizes of the group")->delimiter(',')->check(CLI::Range(2, 4096));
  scaling.add_option("--gigabits", options->gigabits, "rates of the links, in Gbit/s")
      ->delimiter(',')
      ->check(CLI::Range(1e-3, 1e5));
  scaling.add_option("--latencies-ms", options->latencies_ms, "latencies of the links, in ms")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1e4));
  scaling.add_option("--compute-ms", options->compute_ms, "of a step without exchange, for all models")
      ->check(CLI::Range(0.0, 1e6));
  scaling.add_option("--threads", options->threads, "cells simulated side by side")->check(CLI::Range(1, 64));
  scaling.add_option("--frames-max", options->frames_max, "steps of more frames are predicted, not simulated");
  scaling.add_option("--costs", options->costs, "take the costs of coding from the rows in this file")
      ->check(CLI::ExistingFile);
}

void add_variance(CLI::App& parent, Chosen& chosen) {
  const auto options = std::make_shared<OfModel<bench::VarianceOptions>>();
  CLI::App& variance = add(parent, chosen, "variance", "what unbiased compressors make of a gradient, at equal bytes",
                           options, with_model<bench::VarianceOptions, bench::variance>);
  add_model(variance, *options);
  variance.add_option("--dataset", options->dataset, "a dataset of the catalog");
  variance.add_option("--dataset-path", options->dataset_path, "the folder of its files");
  variance.add_option("--steps", options->steps, "of training before")->check(CLI::Range(0, 1000000));
  variance.add_option("--batch-size", options->batch_size, "samples per step")->check(CLI::Range(1, 65536));
  variance.add_option("--repetitions", options->repetitions, "encodings of a row")->check(CLI::Range(1, 1000000));
}

}  // namespace

void add_bench(CLI::App& program, std::function<int()>& chosen) {
  CLI::App& bench = *program.add_subcommand("bench", "measure");
  bench.require_subcommand(1);
  add(bench, chosen, "compressors", "encode and decode, beside memcpy", std::make_shared<bench::Options>(),
      bench::compressors);
  add(bench, chosen, "exchange", "collectives, and a job's exchange, beside bare copies and sockets",
      std::make_shared<bench::Options>(), bench::exchange);
  add(bench, chosen, "gathering", "the mean of many ranks' payloads, beside the bytes it touches",
      std::make_shared<bench::Options>(), bench::gathering);
  add_train(bench, chosen);
  add_all_reduce(bench, chosen);
  add_scaling(bench, chosen);
  add_variance(bench, chosen);
}

}  // namespace weir::worker
