#include "compressors/catalog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "base/errc.hpp"
#include "compressors/sparsifiers/topk.hpp"
#include "compressors/variants.hpp"
#include "protocol/catalog_entries.hpp"
#include "protocol/schema.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Error refusal(const std::string& compressor, const json& params, const std::string& memory = "",
              const json& memory_params = {}) {
  auto made = builtin().make(
      {.compressor = compressor, .params = params, .memory = memory, .memory_params = memory_params, .setting = {}});
  return made ? Error() : made.error();
}

TEST(Catalog, UnknownNamesGiveTheNearest) {
  EXPECT_EQ(refusal("topq", {}).code, Errc::not_found);
  EXPECT_THAT(refusal("topq", {}).context, HasSubstr("'topk'"));
  EXPECT_THAT(refusal("zzzzzzzzzz", {}).context, HasSubstr("none, fp16, bf16"));
  EXPECT_EQ(refusal("topk", {}, "residula").code, Errc::not_found);
  EXPECT_THAT(refusal("topk", {}, "residula").context, HasSubstr("'residual'"));
}

TEST(Catalog, UnknownParametersGiveTheNearest) {
  const Error error = refusal("dgc", {{"ratoi", 0.1}});
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_THAT(error.context, HasSubstr("ratoi"));
  EXPECT_THAT(error.context, HasSubstr("ratio"));
}

TEST(Catalog, ParametersAreCheckedAgainstTheirRanges) {
  const std::vector<std::pair<std::string, json>> wrong = {{"topk", {{"ratio", 0}}},
                                                           {"topk", {{"ratio", 1.5}}},
                                                           {"topk", {{"ratio", "much"}}},
                                                           {"topk", {{"ratio", nullptr}}},
                                                           {"topk", {{"index_codec", "zip"}}},
                                                           {"none", {{"ratio", 0.1}}},
                                                           {"dgc", {{"adaptations_max", 1.5}}},
                                                           {"dgc", {{"warmup_dense", 1.1}}},
                                                           {"dgc", {{"resample", 1}}},
                                                           {"dgc", {{"warmup_epochs", -1}}},
                                                           {"dgc", {{"warmup_schedule", "steep"}}},
                                                           {"dgc", {{"warmup_schedule", "paper"}}},  // all is dense
                                                           {"blockk", {{"block", 64}, {"per_block", 65}}},
                                                           {"atomo", {{"quantize_bits", 1}}},
                                                           {"atomo", {{"ratio", 0.1}}},  // of entries
                                                           {"atomo", {{"atoms", "dct"}, {"budget", 2}}},
                                                           {"dgc", json::array()},
                                                           {"dgc", "fast"}};
  for (const auto& [name, params] : wrong) EXPECT_EQ(refusal(name, params).code, Errc::invalid_argument) << params;
  EXPECT_EQ(refusal("topk", {}, "residual", {{"beta", -1}}).code, Errc::invalid_argument);
  EXPECT_FALSE(
      refusal("dgc", {{"warmup_dense", 0}, {"warmup_epochs", nullptr}, {"warmup_schedule", "paper"}}).code.failed());
  EXPECT_FALSE(refusal("dgc", {}, "", {{"clip_norm", 1.5}}).code.failed());
}

TEST(Catalog, MemoriesThatDoNotFitAreRefusedWithAReason) {
  EXPECT_EQ(refusal("none", {}, "residual").code, Errc::invalid_argument);
  EXPECT_THAT(refusal("none", {}, "residual").context, HasSubstr("sends everything"));
  EXPECT_THAT(refusal("none", {}, "dgc").context, HasSubstr("which entries it sent"));
  EXPECT_FALSE(refusal("topk", {}, "dgc").code.failed());
  EXPECT_FALSE(refusal("dgc", {}, "none").code.failed());
  EXPECT_THAT(refusal("randomk", {{"unbiased", true}}, "dgc").context, HasSubstr("grow without limit"));
  EXPECT_THAT(refusal("atomo", {{"budget", 600}}, "residual").context, HasSubstr("grow without limit"))
      << "it would fit a matrix of 1024 rows, but not one of 4096";
  // Of two entries one is sent, doubled: what is left of the other is as large as before.
  EXPECT_THAT(refusal("randomk", {{"unbiased", true}, {"ratio", 0.5}}, "residual").context,
              HasSubstr("grow without limit"));
  EXPECT_FALSE(refusal("randomk", {}, "dgc").code.failed());
}

TEST(Catalog, DefaultMemoriesFit) {
  const json catalog = builtin().describe();
  for (const json& compressor : catalog.at("compressors")) {
    EXPECT_THAT(compressor.at("memories"), ::testing::Contains(compressor.at("default_memory")));
  }
}

TEST(Catalog, DescribesEveryParameter) {
  const json catalog = builtin().describe();
  ASSERT_EQ(catalog.at("compressors").size(), builtin().compressors().size());
  ASSERT_EQ(catalog.at("memories").size(), builtin().memories().size());
  for (const char* kind : {"compressors", "memories"}) {
    for (const json& entry : catalog.at(kind)) {
      EXPECT_FALSE(entry.at("summary").get<std::string>().empty());
      EXPECT_EQ(entry.at("params").at("additionalProperties"), false);
      for (const auto& [name, property] : entry.at("params").at("properties").items()) {
        EXPECT_TRUE(property.contains("type")) << name;
        EXPECT_TRUE(property.contains("default")) << name;
        EXPECT_FALSE(property.at("description").get<std::string>().empty()) << name;
      }
    }
  }
  const auto named = [&](const char* kind, const char* name) {
    const auto found = std::ranges::find_if(catalog.at(kind), [&](const json& it) { return it.at("name") == name; });
    return found == catalog.at(kind).end() ? json() : *found;
  };
  const json dgc = named("compressors", "dgc");
  EXPECT_EQ(dgc.at("traits").at("passes"), json::array({"gather"}));
  EXPECT_EQ(dgc.at("traits").at("warmup"), true);
  EXPECT_EQ(dgc.at("traits").at("usual_warmup"),
            (nlohmann::json{{"share", 0.1}, {"share_where_rate_falls", 0.5}, {"epochs_max", 4.0}}));
  EXPECT_EQ(dgc.at("traits").at("vector_entries_min"), 4096);
  EXPECT_EQ(named("compressors", "powersgd").at("traits").at("vector_entries_min"), nullptr);
  EXPECT_EQ(dgc.at("traits").at("goes_dense"), true);
  EXPECT_EQ(named("compressors", "topk").at("traits").at("warmup"), false);
  EXPECT_EQ(named("compressors", "signsgd").at("traits").at("goes_dense"), false) << "it votes";
  EXPECT_EQ(named("compressors", "casq").at("traits").at("goes_dense"), true);
  EXPECT_EQ(named("compressors", "sidco").at("traits").at("goes_dense"), false) << "its size depends on the data";
  const auto owners_keep = [&](const char* name) {
    return named("compressors", name).at("traits").at("owners_keep_residual").get<bool>();
  };
  EXPECT_TRUE(owners_keep("topk") && owners_keep("qsgd"));
  EXPECT_FALSE(owners_keep("none")) << "nothing is left out";
  EXPECT_FALSE(owners_keep("powersgd")) << "its payloads are summed";
  EXPECT_FALSE(owners_keep("signsgd")) << "signs have no size";
  EXPECT_EQ(dgc.at("params").at("properties").at("ratio").at("exclusiveMinimum"), 0);
  EXPECT_EQ(dgc.at("params").at("properties").at("ratio").at("default"), 0.001);
  EXPECT_EQ(named("memories", "dgc").at("owns_momentum"), true);
  EXPECT_EQ(named("memories", "dgc").at("momentum_params"), nlohmann::json::array());
  EXPECT_EQ(named("memories", "ef21").at("momentum_params"), nlohmann::json{"momentum"});
  EXPECT_EQ(named("compressors", "demo").at("default_memory_params").at("beta"), 0.999);
  EXPECT_THAT(named("compressors", "signsgd").at("memory_misfits").at("residual"), HasSubstr("signs"));
  EXPECT_THAT(named("compressors", "bf16").at("memory_misfits").at("ef21"), HasSubstr("rounded at every rank"));
  EXPECT_FALSE(named("compressors", "bf16").at("memory_misfits").contains("residual"));
  EXPECT_FALSE(named("compressors", "topk").at("memory_misfits").contains("ef21"));
  const auto why_not_over = [&](const char* compressor, const char* gathers) {
    return named("compressors", compressor).value(std::string(gathers) + "_misfit", "");
  };
  EXPECT_EQ(why_not_over("topk", "owners"), "");
  EXPECT_THAT(why_not_over("casq", "owners"), HasSubstr("the mean of its payloads"));
  EXPECT_EQ(why_not_over("topk", "regions"), "");
  EXPECT_THAT(why_not_over("qsgd", "regions"), HasSubstr("entries that a compressor has chosen"));
  EXPECT_EQ(why_not_over("qsgd", "partners"), "");
  EXPECT_THAT(why_not_over("topk", "partners"), HasSubstr("it sends some entries"));
  EXPECT_DOUBLE_EQ(named("compressors", "natural").at("traits").at("error_bound"), 0.125);
  EXPECT_NEAR(named("compressors", "fp16").at("traits").at("wire_bits").at("summed"), 16, 1e-9);
}

/// A value that a parameter may have.
json drawn(const json& property, std::mt19937& draw) {
  const auto below = [&](std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(draw); };
  if (property.contains("enum")) return property.at("enum").at(below(property.at("enum").size()));
  if (property.at("type") == "boolean") return below(2) == 1;
  if (!property.at("default").is_number()) return property.at("default");
  const double least = property.value("exclusiveMinimum", property.value("minimum", 0.0));
  const double most = property.value("maximum", property.value("exclusiveMaximum", 1e6));
  // Sizes of all orders of magnitude.
  const double share = std::pow(10, std::uniform_real_distribution<>(-6, 0)(draw));
  const double unit = property.value("multipleOf", 1.0);
  const double value = least + share * (most - least);
  return property.at("type") == "integer" ? json(static_cast<std::int64_t>(std::ceil(value / unit) * unit))
                                          : json(value);
}

// What the head knows of a compressor is what a worker finds when it has made it, also where that depends on numbers.
TEST(Catalog, SaysWhatFitsWithAnyParameters) {
  std::mt19937 draw(1);
  const json catalog = builtin().describe();
  std::set<std::string> by_numbers;
  for (const json& described : catalog.at("compressors")) {
    const std::string name = described.at("name");
    for (int i = 0; i < 300; ++i) {
      json params = json::object();
      for (const auto& [of, property] : described.at("params").at("properties").items()) {
        if (std::uniform_int_distribution<>(0, 1)(draw) == 1) params[of] = drawn(property, draw);
      }
      if (!protocol::check_and_complete(described.at("params"), params).empty()) continue;
      const auto made = builtin().make_compressor(name, params);
      ASSERT_TRUE(made) << name << params << ": " << made.error().message();
      const json known = protocol::fits_of(described, params);
      const json found = fits_of(**made, builtin().memories());
      for (const auto& [what, value] : found.items())
        EXPECT_EQ(known.value(what, json()), value) << name << params << what;
      for (const char* what : {"owners_misfit", "regions_misfit", "partners_misfit"})
        EXPECT_EQ(known.contains(what), found.contains(what)) << name << params << what;
      if (known.value("params", json()).dump().find("imum") != std::string::npos) by_numbers.insert(name);
    }
  }
  EXPECT_THAT(by_numbers, ::testing::ElementsAre("atomo", "qsgd", "randomk"));
}

TEST(Catalog, TakesCompressorsOfOthers) {
  CompressionCatalog mine = builtin();
  CompressorEntry entry = mine.compressors()[1];
  const std::string before = entry.name;
  entry.name = "mine";
  mine.add(entry);
  EXPECT_EQ(mine.make_compressor("mine", nullptr).value()->name(), before);
}

TEST(CatalogDeathTest, ANameIsTakenOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  CompressionCatalog mine = builtin();
  EXPECT_DEATH(mine.add(CompressorEntry(mine.compressors()[0])), "a catalog has a name twice");
}

}  // namespace
}  // namespace weir::compressors::test
