#include "protocol/catalog.hpp"

#include <gtest/gtest.h>

#include "base/errc.hpp"

namespace weir::protocol {
namespace {

using nlohmann::json;

struct Shape {
  explicit Shape(double area) : area(area) {}
  virtual ~Shape() = default;
  double area;
};

struct Unit : Shape {
  static constexpr std::string_view type_name = "unit";
  static constexpr std::string_view summary = "of one side";
  Unit() : Shape(1) {}
};

struct Square : Shape {
  static constexpr std::string_view type_name = "square";
  static constexpr std::string_view summary = "of equal sides";
  struct Options {
    double side = 2;
  };
  static Params<Options> params() {
    return Params<Options>().number("side", &Options::side, {.minimum = 0}, "length of a side");
  }
  explicit Square(Options options) : Shape(options.side * options.side) {}
};

struct Scaled : Shape {
  static constexpr std::string_view type_name = "scaled";
  static constexpr std::string_view summary = "of the size asked for";
  Scaled(NoOptions, const double& scale) : Shape(scale) {}
};

struct Checked {
  static constexpr std::string_view type_name = "checked";
  static constexpr std::string_view summary = "not larger than asked for";
  using Options = Square::Options;
  static Params<Options> params() { return Square::params(); }
  static Result<std::unique_ptr<Shape>> make(Options options, const double& scale) {
    if (options.side > scale) return Error{Errc::invalid_argument, "too large"};
    return std::make_unique<Square>(options);
  }
};

using Shapes = Catalog<CatalogEntry<Shape, const double&>>;

const Shapes& shapes() {
  static const auto catalog = Shapes({.kind = "shape"}).add<Unit>().add<Square>().add_all(TypeList<Scaled, Checked>{});
  return catalog;
}

TEST(Catalog, MakesWhatIsNamed) {
  EXPECT_EQ(shapes().make("unit", nullptr, 7.0).value()->area, 1);
  EXPECT_EQ(shapes().make("square", nullptr, 7.0).value()->area, 4);
  EXPECT_EQ(shapes().make("square", {{"side", 3}}, 7.0).value()->area, 9);
  EXPECT_EQ(shapes().make("scaled", json::object(), 7.0).value()->area, 7);
  EXPECT_EQ(shapes().make("checked", {{"side", 3}}, 7.0).value()->area, 9);
  EXPECT_EQ(shapes().make("checked", {{"side", 8}}, 7.0).error(), (Error{Errc::invalid_argument, "too large"}));
}

TEST(Catalog, RefusesUnknownNamesAndWrongParameters) {
  const auto refusal = [](std::string_view name, const json& params) {
    return shapes().make(name, params, 7.0).error();
  };
  EXPECT_EQ(refusal("sqare", {}), (Error{Errc::not_found, "there is no shape 'sqare'; did you mean 'square'?"}));
  EXPECT_EQ(refusal("icosahedron", {}),
            (Error{Errc::not_found, "there is no shape 'icosahedron'; there is unit square scaled checked"}));
  EXPECT_EQ(refusal("square", {{"side", -1}}),
            (Error{Errc::invalid_argument, "shape square: /params/side: must be at least 0"}));
  EXPECT_EQ(refusal("unit", {{"side", 1}}),
            (Error{Errc::invalid_argument, "shape unit: /params/side: is not a known field; none are taken here"}));
}

TEST(Catalog, WordsItsErrorsAsItIsTold) {
  const auto unknown = [](std::string_view kind, std::string_view name, const std::vector<std::string>& known) {
    return Error{Errc::not_found, std::string(kind) + ":" + std::string(name) + ":" + known.at(0)};
  };
  const auto refused = [](std::string_view, std::string_view name, const std::vector<Problem>& problems) {
    return Error{Errc::invalid_argument, std::string(name) + problems.at(0).pointer};
  };
  const auto catalog = Shapes({.kind = "shape", .unknown = unknown, .refused = refused}).add<Square>();
  EXPECT_EQ(catalog.make("disc", nullptr, 7.0).error().context, "shape:disc:square");
  EXPECT_EQ(catalog.make("square", {{"edge", 1}}, 7.0).error().context, "square/edge");
}

TEST(Catalog, DescribesItsEntries) {
  const json list = shapes().describe();
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0], (json{{"name", "unit"}, {"summary", "of one side"}, {"params", empty_schema()}}));
  EXPECT_EQ(list[1].at("params"), Square::params().schema());
}

TEST(CatalogDeathTest, ANameIsTakenOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(Shapes(shapes()).add<Unit>(), "a catalog has a name twice");
}

}  // namespace
}  // namespace weir::protocol
