// Whatever the catalog offers is accepted by the head as it is offered, and trains.

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "folder.hpp"
#include "protocol/job_spec.hpp"
#include "ranks.hpp"
#include "training/models/list.hpp"
#include "training/modes/mode.hpp"
#include "training/shapes.hpp"
#include "training/tensor_file.hpp"

namespace weir::training {
namespace {

using nlohmann::json;

/// What `weir-worker catalog` prints, and `weir` has in it.
const json& catalog() {
  static const json printed = json::parse(std::ifstream(WEIR_CATALOG));
  return printed;
}

std::vector<std::string> names(const char* list) {
  std::vector<std::string> all;
  for (const auto& entry : catalog().at(list)) all.push_back(entry.at("name"));
  return all;
}

/// A small job; `more` replaces sections of it.
json job(const json& more) {
  json spec = {{"model", {{"name", "mlp"}, {"params", {{"hidden", 16}}}}},
               {"dataset",
                {{"name", "synthetic"},
                 {"params", {{"height", 8}, {"width", 8}, {"train_examples", 64}, {"test_examples", 8}}}}},
               {"training", {{"batch_size", 4}, {"max_steps", 3}}},
               {"resources", {{"workers", 2}}}};
  spec.update(more);
  return spec;
}

/// The problems that the head finds, or nothing.
std::string problems_of(json& spec) {
  std::string text;
  for (const auto& problem : protocol::normalize_job_spec(spec, catalog())) {
    text += problem.pointer + " " + problem.message + "\n";
  }
  if (!text.empty()) return text;
  const auto shape = training_shape(protocol::parse_job_spec(spec).value());
  return shape ? "" : shape.error().message();
}

/// Counts steps; all losses must be numbers.
class Steps final : public Progress {
 public:
  bool stop_wanted() const override { return false; }
  Result<void> step_done(const Replica&, const StepRecord& record) override {
    EXPECT_TRUE(std::isfinite(record.loss));
    ++count;
    return {};
  }
  std::uint64_t count = 0;
};

/// Trains all ranks of a job in this process. Returns what refuses it, or an empty text.
std::string train(const protocol::JobSpec& spec) {
  const std::uint32_t world = spec.resources.workers;
  auto group = collectives::in_process_group(world);
  std::vector<std::string> refused(world);
  testing::run_ranks(world, [&](std::uint32_t rank) {
    Steps steps;
    {
      auto replica = Replica::make(spec, rank, world);
      if (!replica) {
        refused[rank] = replica.error().message();
      } else if (auto joined = (*replica)->join(*group[rank]); !joined) {
        refused[rank] = joined.error().message();
      } else {
        auto mode = modes().make(spec.training.mode.name, spec.training.mode.params).value();
        const auto done = mode->train(**replica, steps);
        if (!done) refused[rank] = done.error().message();
        EXPECT_EQ(steps.count, done ? *spec.training.max_steps : 0);
      }
    }
    group[rank]->close();
  });
  for (const auto& reason : refused) {
    if (!reason.empty()) return reason;
  }
  return "";
}

/// Expects that the head takes the job and the workers train it.
void expect_trains(const json& more) {
  json spec = job(more);
  ASSERT_EQ(problems_of(spec), "") << more;
  EXPECT_EQ(train(protocol::parse_job_spec(spec).value()), "") << more;
}

/// Each model with its defaults, in each precision, on images as small as it takes, or on a text.
TEST(Defaults, EveryModelTrains) {
  NetworkTypes::for_each([]<class M>() {
    const std::string name(M::type_name);
    json dataset = {{"name", "synthetic-text"}, {"params", {{"context", 8}, {"train_examples", 8}}}};
    for (std::int64_t side = 1; side < 400; ++side) {
      if (!M::network({}, {.channels = 3, .height = side, .width = side, .classes = 10})) continue;
      dataset = {{"name", "synthetic"},
                 {"params",
                  {{"channels", 3}, {"height", side}, {"width", side}, {"train_examples", 8}, {"test_examples", 2}}}};
      break;
    }
    for (const char* precision : {"float32", "bfloat16"}) {
      // One worker: some of these have tens of millions of parameters.
      expect_trains({{"model", {{"name", name}}},
                     {"dataset", dataset},
                     {"training", {{"batch_size", 2}, {"max_steps", 2}, {"precision", precision}}},
                     {"resources", {{"workers", 1}}}});
    }
  });
}

/// Writes small files of the form that a dataset expects. Returns nothing if it has a usual place or no files.
std::optional<std::string> files_of(const std::string& dataset, const testing::Folder& folder) {
  const auto idx = [&](const std::string& file, std::vector<std::uint8_t> extents, std::size_t elements) {
    std::string bytes{0, 0, 8, static_cast<char>(extents.size())};
    for (const auto extent : extents) bytes += std::string(3, '\0') + static_cast<char>(extent);
    folder.write(file, bytes + std::string(elements, '\1'));
  };
  if (dataset == "mnist" || dataset == "fashion-mnist") {
    for (const std::string part : {"train", "t10k"}) {
      idx(part + "-images-idx3-ubyte", {24, 28, 28}, std::size_t{24} * 28 * 28);
      idx(part + "-labels-idx1-ubyte", {24}, 24);
    }
    return folder.path();
  }
  if (dataset == "cifar10" || dataset == "cifar100") {
    const bool ten = dataset == "cifar10";
    const std::size_t record = 3072 + (ten ? 1 : 2);
    const std::vector<std::string> train =
        ten ? std::vector<std::string>{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                       "data_batch_5.bin"}
            : std::vector<std::string>{"train.bin"};
    for (const auto& file : train) folder.write(file, std::string(50'000 / train.size() * record, '\1'));
    folder.write(ten ? "test_batch.bin" : "test.bin", std::string(10'000 * record, '\1'));
    return folder.path();
  }
  if (dataset == "arrays") {
    TensorFile file;
    for (const std::string part : {"train_", "test_"}) {
      file.add(part, {{"inputs", at::zeros({24, 28, 28}, at::kByte)}, {"classes", at::ones({24}, at::kByte)}});
    }
    const auto bytes = file.write({}).value();
    folder.write("data.safetensors", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return folder / "data.safetensors";
  }
  if (dataset == "text") {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "abcde "[i * i % 6];
    folder.write("a.txt", text + text);
    return folder / "a.txt";
  }
  return std::nullopt;
}

/// Each dataset with its defaults, under the smallest model for it.
TEST(Defaults, EveryDatasetIsTrainedOn) {
  for (const auto& name : names("datasets")) {
    const testing::Folder folder;
    json dataset = {{"name", name}};
    if (const auto path = files_of(name, folder)) dataset["path"] = *path;
    const bool text = dataset_shape(name, nullptr, "").value().example.tokens > 0;
    const json model =
        text ? json{{"name", "gpt"}, {"params", {{"layers", 1}, {"heads", 1}, {"width", 8}}}} : json{{"name", "mlp"}};
    expect_trains({{"model", model}, {"dataset", dataset}});
  }
}

/// The first compressor of the catalog that takes the memory.
std::string compressor_for(const std::string& memory) {
  for (const auto& compressor : catalog().at("compressors")) {
    const auto& fitting = compressor.at("memories");
    if (std::find(fitting.begin(), fitting.end(), memory) != fitting.end()) return compressor.at("name");
  }
  return "";
}

/// Each optimizer with each memory, both with their defaults. What the workers would refuse, the head refuses already.
TEST(Defaults, EveryOptimizerTrainsWithEveryMemoryThatLeavesItItsMomentum) {
  int refused = 0;
  for (const auto& memory : names("memories")) {
    for (const auto& optimizer : names("optimizers")) {
      json spec = job({{"training", {{"batch_size", 4}, {"max_steps", 3}, {"optimizer", {{"name", optimizer}}}}},
                       {"compression", {{"name", compressor_for(memory)}, {"memory", memory}}}});
      const auto problems = problems_of(spec);
      if (problems.empty()) {
        EXPECT_EQ(train(protocol::parse_job_spec(spec).value()), "") << optimizer << " " << memory;
        continue;
      }
      ++refused;
      EXPECT_TRUE(problems.starts_with("/training/optimizer/name ")) << optimizer << " " << memory << problems;
      EXPECT_NE(optimizer, "sgd") << memory << problems;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(Defaults, EveryCompressorTrains) {
  for (const auto& compressor : names("compressors")) expect_trains({{"compression", {{"name", compressor}}}});
}

TEST(Defaults, EveryTopologyOfTheModeCarriesATrainingOrAsksForGpus) {
  for (const auto& topology : catalog().at("topologies")) {
    const json part{{"exchange", {{"topology", topology.at("name")}}}};
    if (topology.at("on_devices")) {
      json spec = job(part);
      EXPECT_NE(problems_of(spec).find("set resources.per_worker.gpu to 1"), std::string::npos);
    } else {
      expect_trains(part);
    }
  }
}

TEST(Defaults, EveryScheduleTrains) {
  for (const auto& schedule : names("lr_schedules")) {
    expect_trains({{"training", {{"batch_size", 4}, {"max_steps", 3}, {"lr_schedule", {{"name", schedule}}}}}});
  }
}

}  // namespace
}  // namespace weir::training
