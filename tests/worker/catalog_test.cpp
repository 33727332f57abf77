// That the catalog, by which the head judges a job, and the worker, which makes what the job names, say the same.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catalog_settings.hpp"
#include "collectives/topologies/catalog.hpp"
#include "protocol/job_spec.hpp"
#include "protocol/roles.hpp"
#include "training/replica.hpp"

namespace weir::worker {
namespace {

using nlohmann::json;
using testing::all;
using testing::settings_of;

json job(const json& compressor, const json& params, const json& topology, std::uint32_t workers = 2) {
  return {{"model", {{"name", "mlp"}, {"params", {{"hidden", 2}}}}},
          {"dataset",
           {{"name", "synthetic"},
            {"params", {{"height", 2}, {"width", 2}, {"classes", 2}, {"train_examples", 8}, {"test_examples", 8}}}}},
          {"training", {{"batch_size", 2}}},
          {"compression", {{"name", compressor.at("name")}, {"params", params}}},
          {"exchange", {{"topology", topology.at("name")}}},
          {"resources", {{"workers", workers}}}};
}

// As many as there are; those that the head would let through and a worker refuse would cost the job its start.
TEST(WorkerCatalog, JudgesCompressorsOverTopologiesAsTheWorkerDoes) {
  std::size_t refused = 0;
  std::map<std::string, std::size_t> refused_by;  // those to whom payloads go
  for (const json& compressor : all().at("compressors")) {
    for (const json& params : settings_of(compressor)) {
      for (const json& topology : all().at("topologies")) {
        json spec = job(compressor, params, topology);
        const std::string what = spec.at("compression").dump() + " over " + topology.at("name").dump();
        // The spec has to be complete for the worker, too.
        json other = job(compressor, params, all().at("topologies").front());
        const auto problems = protocol::normalize_job_spec(spec, all());
        (void)protocol::normalize_job_spec(other, all());
        other["exchange"]["topology"] = topology.at("name");
        const auto typed = protocol::parse_job_spec(other);
        ASSERT_TRUE(typed) << what << ": " << typed.error().message();
        const auto made = training::Replica::make(*typed, 0, 2);
        EXPECT_EQ(problems.empty(), made.has_value())
            << what << ": " << (problems.empty() ? made.error().message() : problems.front().message);
        if (problems.empty()) continue;
        ++refused;
        const bool only_so = problems.size() == 1 && problems.front().pointer == "/exchange/topology";
        if (topology.at("gathers") == "all" || made || !only_so) continue;
        const std::string& said = problems.front().message;
        const std::string reason = said.substr(said.rfind("\": ") + 3);
        EXPECT_NE(made.error().context.find(reason), std::string::npos) << what << ": " << made.error().message();
        ++refused_by[topology.at("gathers").get<std::string>()];
      }
    }
  }
  EXPECT_GT(refused, 20U);
  EXPECT_EQ(refused_by.size(), 3U);
  EXPECT_GT(refused_by["partners"], 20U);
}

TEST(WorkerCatalog, RefusesWhatCannotWorkOrWouldChangeNothing) {
  struct Case {
    const char* change;
    const char* pointer;
  };
  const Case cases[] = {
      {R"({"compression": {"name": "topk", "params": {"ratio": 0.5}, "memory": "powersgd"}})", "/compression/memory"},
      {R"({"compression": {"name": "qsgd", "params": {"bits": 1}, "memory": "residual"}})", "/compression/memory"},
      {R"({"compression": {"name": "qsgd", "params": {"bucket": 1024}, "memory": "residual"}})", "/compression/memory"},
      {R"({"compression": {"name": "blockk", "params": {"block": 64, "per_block": 65}}})",
       "/compression/params/per_block"},
      {R"({"compression": {"name": "atomo", "params": {"quantize_bits": 1}}})", "/compression/params/quantize_bits"},
      {R"({"dataset": {"params": {"height": 512, "width": 512, "train_examples": 20000}}})",
       "/dataset/params/train_examples"},
      {R"({"training": {"mode": "diloco", "params": {"period": 2, "fragments": 3}}})", "/training/params/fragments"},
      {R"({"compression": {"name": "dgc", "params": {"warmup_schedule": "paper"}}})",
       "/compression/params/warmup_schedule"},
      {R"({"compression": {"name": "dgc", "params": {"warmup_epochs": 0, "warmup_dense": 0.5}}})",
       "/compression/params/warmup_dense"},
      {R"({"compression": {"name": "atomo", "params": {"ratio": 0.5}}})", "/compression/params/ratio"},
      {R"({"compression": {"name": "atomo", "params": {"atoms": "dct", "budget": 5}}})", "/compression/params/budget"},
      {R"({"model": {"params": {"hidden": 3, "widths": [4]}}})", "/model/params/hidden"},
      {R"({"model": {"name": "vgg", "params": {"hidden": null, "small_images": true, "dropout": 0.1}}})",
       "/model/params/dropout"},
      {R"({"training": {"mode": "gossip", "params": {"degree": 2}}})", "/training/params/degree"},
      {R"({"training": {"mode": "gossip"}, "exchange": {"bucket_bytes": 4096}})", "/exchange/bucket_bytes"},
      {R"({"training": {"mode": "diloco", "params": {"merge": 0.25}}})", "/training/params/merge"},
      {R"({"training": {"mode": "esync", "params": {"local_lr": 0.1}, "optimizer": {"lr": 0.2}}})",
       "/training/optimizer/lr"},
      {R"({"compression": {"name": "demo"}, "training": {"optimizer": {"momentum": 0.5}}})",
       "/training/optimizer/momentum"},
      {R"({"compression": {"name": "topk"}, "training": {"mode": "esync", "params": {"adapt_compression": true}},
           "exchange": {"topology": "nccl"}, "resources": {"per_worker": {"gpu": 1}}})",
       "/training/params/adapt_compression"},
  };
  for (const auto& [change, pointer] : cases) {
    json spec = job({{"name", "none"}}, json::object(), all().at("topologies").front());
    spec.merge_patch(json::parse(change));
    const auto problems = protocol::normalize_job_spec(spec, all());
    ASSERT_EQ(problems.size(), 1U) << change;
    EXPECT_EQ(problems.front().pointer, pointer) << problems.front().message;
  }
}

/// What a mode's parameters are if a job gives none.
json params_of(const json& mode) {
  json spec = job({{"name", "none"}}, json::object(), all().at("topologies").front(), 1);
  spec["training"]["mode"] = mode.at("name");
  (void)protocol::normalize_job_spec(spec, all());
  return spec.at("training").at("params");
}

TEST(WorkerCatalog, JudgesCompressorsAndMemoriesInModesAsTheWorkerDoes) {
  std::size_t refused = 0;
  json memories{nullptr};
  for (const json& memory : all().at("memories")) memories.push_back(memory.at("name"));
  for (const json& mode : all().at("modes")) {
    const std::uint32_t workers = mode.at("exchanges") == "nothing" ? 1 : 2;
    for (const json& compressor : all().at("compressors")) {
      for (const json& params : settings_of(compressor)) {
        for (const json& memory : memories) {
          json spec = job(compressor, params, all().at("topologies").front(), workers);
          json other = spec;
          spec["training"]["mode"] = mode.at("name");
          spec["compression"]["memory"] = memory;
          const std::string what = spec.at("compression").dump() + " in mode " + mode.at("name").dump();
          const auto problems = protocol::normalize_job_spec(spec, all());
          // The spec has to be complete for the worker, too: with the memory that the head has chosen.
          (void)protocol::normalize_job_spec(other, all());
          other["training"]["mode"] = mode.at("name");
          other["training"]["params"] = params_of(mode);
          if (!memory.is_null()) other["compression"]["memory_params"] = json::object();
          other["compression"]["memory"] = spec.at("compression").at("memory");
          const auto typed = protocol::parse_job_spec(problems.empty() ? spec : other);
          ASSERT_TRUE(typed) << what << ": " << typed.error().message();
          const auto made = training::Replica::make(*typed, 0, workers);
          EXPECT_EQ(problems.empty(), made.has_value())
              << what << ": " << (problems.empty() ? made.error().message() : problems.front().message);
          if (problems.empty()) continue;
          ++refused;
          if (memory.is_null() && params.empty()) {
            EXPECT_EQ(problems.front().pointer, "/compression/name") << what << ": a default is refused";
          }
        }
      }
    }
  }
  EXPECT_GT(refused, 20U);
}

/// How many aggregations of gradients or models are refused with a compressor in a mode: by the head as by the worker.
std::size_t judge_aggregations(const json& mode, const json& compressor, const json& params) {
  std::size_t refused = 0;
  for (const char* aggregation : {"mean", "sum", "min", "max", "weighted"}) {
    for (const char* apply_to : {"gradients", "models"}) {
      json spec = job(compressor, params, all().at("topologies").front());
      json other = spec;
      spec["training"]["mode"] = mode.at("name");
      spec["compression"]["aggregation"] = aggregation;
      spec["compression"]["apply_to"] = apply_to;
      const std::string what = spec.at("compression").dump() + " in mode " + mode.at("name").dump();
      const auto problems = protocol::normalize_job_spec(spec, all());
      (void)protocol::normalize_job_spec(other, all());
      other["training"]["mode"] = mode.at("name");
      other["training"]["params"] = params_of(mode);
      other["compression"]["aggregation"] = aggregation;
      other["compression"]["apply_to"] = apply_to;
      other["compression"]["memory"] = spec.at("compression").at("memory");
      const auto typed = protocol::parse_job_spec(problems.empty() ? spec : other);
      EXPECT_TRUE(typed) << what << ": " << typed.error().message();
      if (!typed) continue;
      const auto made = training::Replica::make(*typed, 0, 2);
      EXPECT_EQ(problems.empty(), made.has_value())
          << what << ": " << (problems.empty() ? made.error().message() : problems.front().message);
      if (!problems.empty()) ++refused;
    }
  }
  return refused;
}

TEST(WorkerCatalog, JudgesAggregationsAndModelsAsTheWorkerDoes) {
  for (const json& mode : all().at("modes")) {
    if (mode.at("exchanges") == "nothing") continue;
    std::size_t refused = 0;
    for (const json& compressor : all().at("compressors")) {
      for (const json& params : settings_of(compressor)) refused += judge_aggregations(mode, compressor, params);
    }
    EXPECT_GT(refused, 50U) << mode.at("name");
  }
}

TEST(WorkerCatalog, HasAMemoryForDifferences) {
  const auto memory_of = [](const std::string& compressor) {
    for (const json& entry : all().at("compressors")) {
      if (entry.at("name") == compressor) return entry.at("memory_for_differences").get<std::string>();
    }
    return std::string();
  };
  EXPECT_EQ(memory_of("none"), "none");
  EXPECT_EQ(memory_of("topk"), "residual");
  EXPECT_EQ(memory_of("dgc"), "residual") << "its own applies momentum";
  EXPECT_EQ(memory_of("powersgd"), "powersgd");
  const auto ef21 = std::ranges::find_if(all().at("memories"), [](const json& it) { return it.at("name") == "ef21"; });
  EXPECT_EQ(ef21->at("momentum_params"), json{"momentum"});
}

std::string yes(const json& entry, const char* what) { return entry.at(what).get<bool>() ? "yes" : ""; }

std::string joined(const json& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name.get<std::string>();
  return text;
}

std::string table_of_topologies() {
  std::string table = "| name | workers | adds up | payloads to | servers | |\n|---|---|---|---|---|---|\n";
  for (const json& entry : all().at("topologies")) {
    const auto text = [&](const char* what) { return entry.at(what).get<std::string>(); };
    table += "| `" + text("name") + "` | " + (text("workers") == "any" ? "any" : "1, 2, 4, 8, ...") + " | " +
             (entry.at("sums").get<bool>() ? joined(entry.at("elements")) : "") + " | " + text("gathers") + " | " +
             yes(entry, "servers") + " | " + text("summary") + " |\n";
  }
  return table;
}

std::string table_of_graphs() {
  std::string table = "| name | |\n|---|---|\n";
  for (const json& entry : all().at("graphs")) {
    table += "| `" + entry.at("name").get<std::string>() + "` | " + entry.at("summary").get<std::string>() + " |\n";
  }
  return table;
}

/// `text` with `table` between the marks <!-- name --> and <!-- end -->.
std::string with_table(const std::string& text, const std::string& name, const std::string& table) {
  const std::string mark = "<!-- " + name + " -->\n";
  const auto begin = text.find(mark);
  const auto end = text.find("<!-- end -->", begin);
  if (begin == std::string::npos || end == std::string::npos) return "no marks of " + name;
  return text.substr(0, begin + mark.size()) + table + text.substr(end);
}

TEST(WorkerCatalog, IsWhatTheDocumentationSays) {
  std::ifstream file(WEIR_TOPOLOGIES_DOCUMENT);
  const std::string is{std::istreambuf_iterator<char>(file), {}};
  const std::string should =
      with_table(with_table(is, "topologies", table_of_topologies()), "graphs", table_of_graphs());
  if (std::getenv("WEIR_WRITE_DOCS") != nullptr) std::ofstream(WEIR_TOPOLOGIES_DOCUMENT) << should;
  EXPECT_EQ(is, should) << "WEIR_WRITE_DOCS=1 writes it";
}

// A job is judged by these.
TEST(WorkerCatalog, StatesWhatTopologiesCarry) {
  for (const auto& type : collectives::all_topologies()) {
    const auto& entries = all().at("topologies");
    const auto entry =
        std::find_if(entries.begin(), entries.end(), [&](const json& one) { return one.at("name") == type.name; });
    ASSERT_NE(entry, entries.end()) << type.name;
    EXPECT_EQ(entry->at("workers") == "any", type.fits(3)) << type.name;
    EXPECT_EQ(entry->at("gathers") == "all", !type.by_owners()) << type.name;
    EXPECT_EQ(entry->at("gathers") == "partners", type.gathers == collectives::Gathers::partners) << type.name;
    EXPECT_EQ(entry->at("elements").size(), type.elements.size());
    EXPECT_EQ(entry->at("on_devices"), type.on_devices) << type.name;
    const bool has_servers = entry->at("params").at("properties").contains("servers");
    EXPECT_EQ(entry->at("servers"), has_servers) << type.name;
    if (!has_servers) continue;
    const json& servers = entry->at("params").at("properties").at("servers");
    EXPECT_EQ(servers.at("maximum"), type.servers_max);
    EXPECT_EQ(servers.at("description"), type.servers_summary);
  }
}

TEST(WorkerCatalog, AModeStatesTheProcessesThatItNeeds) {
  std::size_t served = 0;
  for (const json& mode : all().at("modes")) {
    const std::uint32_t workers = mode.at("exchanges") == "nothing" ? 1 : 2;
    json spec = job(all().at("compressors").front(), json::object(), all().at("topologies").front(), workers);
    spec["training"]["mode"] = mode.at("name");
    std::uint32_t servers = 0;
    const bool guided = mode.at("name") == "esync";
    EXPECT_EQ(mode.value("roles", json()) == json::parse(R"({"state_server": {"count": 1}})"), guided);
    if (mode.at("exchanges") == "pushes") {
      EXPECT_EQ(mode.at("roles"), json::parse(R"({"server": {"count": "servers"}})")) << mode.at("name");
      spec["training"]["params"]["servers"] = servers = 3;
      ++served;
    }
    const auto problems = protocol::normalize_job_spec(spec, all());
    ASSERT_TRUE(problems.empty()) << mode.at("name") << ": " << problems.front().pointer << problems.front().message;
    const auto groups = protocol::read_groups(spec).value();
    EXPECT_EQ(protocol::members_of(groups), workers + servers + (guided ? 1 : 0)) << mode.at("name");
    EXPECT_EQ(protocol::count_of(groups, protocol::Role::state_server), guided ? 1U : 0U) << mode.at("name");
    EXPECT_EQ(protocol::count_of(groups, protocol::Role::server), servers) << mode.at("name");
  }
  EXPECT_EQ(served, 3U);
}

}  // namespace
}  // namespace weir::worker
