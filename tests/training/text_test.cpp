#include "training/datasets/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errc.hpp"
#include "folder.hpp"
#include "peak_memory.hpp"
#include "training/datasets/catalog.hpp"
#include "training/datasets/text_file.hpp"
#include "training/datasets/texts.hpp"

namespace weir::training {
namespace {

namespace fs = std::filesystem;
using testing::Folder;
using ::testing::HasSubstr;
using Tokens = std::vector<std::int64_t>;

std::unique_ptr<Dataset> make(const std::string& path, const nlohmann::json& params) {
  return datasets().make("text", params, path).value();
}

Tokens tokens_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<std::int64_t>(), tensor.data_ptr<std::int64_t>() + tensor.numel()};
}

Batch one(const Examples& examples, std::uint32_t position) {
  return examples.batch(std::vector<std::uint32_t>{position});
}

TEST(TextDataset, PredictsTheNextByte) {
  const Folder folder;
  folder.write("a.txt", "badcabbage");  // a b c d e g
  const auto dataset = make(folder / "a.txt", {{"context", 3}, {"test_share", 0.4}});
  EXPECT_EQ(dataset->shape().tokens, 3);
  EXPECT_EQ(dataset->shape().classes, 256);
  const auto train = dataset->train().value();
  ASSERT_EQ(train->classes().size(), 1u);  // "badcab": a second example would need its sixth token to be followed
  const auto batch = one(*train, 0);
  EXPECT_EQ(batch.input.sizes(), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(tokens_of(batch.input), (Tokens{1, 0, 3}));
  EXPECT_EQ(tokens_of(batch.target), (Tokens{0, 3, 2}));
  const auto test = dataset->test().value();
  ASSERT_EQ(test->classes().size(), 1u);
  EXPECT_EQ(tokens_of(one(*test, 0).input), (Tokens{1, 0, 5}));
  EXPECT_EQ(tokens_of(one(*test, 0).target), (Tokens{0, 5, 4}));

  const auto overlapping = make(folder / "a.txt", {{"context", 3}, {"stride", 1}, {"test_share", 0.4}});
  const auto examples = overlapping->train().value();
  ASSERT_EQ(examples->classes().size(), 3u);
  const auto all = examples->batch(std::vector<std::uint32_t>{2, 0});
  EXPECT_EQ(tokens_of(all.input), (Tokens{3, 2, 0, 1, 0, 3}));
  EXPECT_EQ(tokens_of(all.target), (Tokens{2, 0, 1, 0, 3, 2}));
}

TEST(TextDataset, TheFilesOfAFolderAreOneText) {
  const Folder folder;
  folder.write("2.txt", "cd");
  folder.write("1.txt", "ab");
  folder.write("3.txt", "");
  folder.write("4.txt", "efgh");
  folder.write("notes.md", "zzzz");
  const auto train = make(folder.path(), {{"context", 5}, {"vocabulary", 8}, {"test_share", 0.01}})->train().value();
  EXPECT_EQ(tokens_of(one(*train, 0).input), (Tokens{0, 1, 2, 3, 4}));
  EXPECT_EQ(tokens_of(one(*train, 0).target), (Tokens{1, 2, 3, 4, 5}));
}

TEST(TextFile, KeepsAPartAndNumbersItsTokensByTheWhole) {
  const Folder folder;
  folder.write("1.txt", "dab");
  folder.write("2.txt", "e");
  folder.write("3.txt", "cafe");
  const auto files = find_text(folder.path()).value();
  EXPECT_EQ(files.bytes, 8u);
  const Tokens all{3, 0, 1, 4, 2, 0, 5, 4};
  for (std::size_t begin = 0; begin <= all.size(); ++begin) {
    for (std::size_t end = begin; end <= all.size(); ++end) {
      const auto text = read_text(files, begin, end).value();
      ASSERT_EQ(text.size(), end - begin);
      EXPECT_EQ(text.vocabulary(), 6u);
      Tokens tokens(end - begin);
      text.tokens(0, tokens);
      EXPECT_EQ(tokens, Tokens(all.data() + begin, all.data() + end)) << begin << " to " << end;
    }
  }
  fs::resize_file(folder / "3.txt", 3);
  const auto shortened = read_text(files, 0, 1).error();
  EXPECT_EQ(shortened.code, Errc::malformed);
  EXPECT_THAT(shortened.context, HasSubstr("3.txt: it has no byte 3"));
  fs::remove(folder / "2.txt");
  EXPECT_EQ(read_text(files, 0, 1).error().code, Errc::not_found);
}

/// The files are all hole. Of a text that is not kept no more is in memory than what is being looked at.
TEST(TextDataset, TakesMemoryForItsPartAlone) {
  const Folder folder;
  constexpr std::uint64_t hole = std::uint64_t{256} << 20;
  folder.write("a.txt", "");
  fs::resize_file(folder / "a.txt", hole);
  const auto before = testing::peak_memory();
  EXPECT_EQ(make(folder / "a.txt", {{"context", 4}, {"test_share", 1e-6}})->test().value()->classes().size(), 66u);
  EXPECT_LT(testing::peak_memory() - before, hole / 2);
  folder.write("b.txt", "");
  fs::resize_file(folder / "b.txt", std::uint64_t{UINT32_MAX});
  const auto too_long = make(folder.path(), {{"context", 4}})->train().error();
  EXPECT_EQ(too_long.code, Errc::malformed);
  EXPECT_THAT(too_long.context,
              HasSubstr("b.txt has 4294967295 bytes after the 268435456 bytes of the files before it"));
}

TEST(TextDataset, TheClassOfAnExampleIsItsSection) {
  const Folder folder;
  folder.write("a.txt", std::string(5 * 2048 + 2, 'x'));
  const auto train = make(folder / "a.txt", {{"context", 4}, {"stride", 1}, {"test_share", 0.000001}})->train().value();
  const auto classes = train->classes();
  EXPECT_EQ(classes.front(), 0u);
  EXPECT_EQ(classes.back(), text_sections_max - 1);
  EXPECT_TRUE(std::ranges::is_sorted(classes));
  EXPECT_EQ(std::set(classes.begin(), classes.end()).size(), text_sections_max);
  folder.write("b.txt", "abcdefghi");
  const auto few = make(folder / "b.txt", {{"context", 2}, {"test_share", 0.01}})->train().value();
  EXPECT_EQ(std::vector(few->classes().begin(), few->classes().end()), (std::vector<std::uint16_t>{0, 1, 2, 3}));
}

TEST(TextDataset, AnotherTextHasAnotherHash) {
  const Folder folder;
  const std::string text = "to be or not to be, that is the question: ";
  folder.write("a.txt", text + text);
  folder.write("b.txt", text + text);
  folder.write("c.txt", "\n" + text + text);
  const std::string much = std::string(100'000, 'a') + "b";
  folder.write("d.txt", much + "b" + much);
  folder.write("e.txt", much + "a" + much);
  const auto hash = [&folder](const char* file) {
    return make(folder / file, {{"context", 4}})->train().value()->hash();
  };
  EXPECT_EQ(hash("a.txt"), hash("b.txt"));
  EXPECT_NE(hash("a.txt"), hash("c.txt")) << "its tokens are numbered otherwise";
  EXPECT_NE(hash("d.txt"), hash("e.txt")) << "one letter in the middle";
}

TEST(TextDataset, RefusesWhatItCannotUse) {
  const Folder folder;
  const auto refusal = [](const std::string& path, const nlohmann::json& params) {
    const auto train = make(path, params)->train();
    EXPECT_FALSE(train);
    return train ? Error() : train.error();
  };
  auto error = refusal(folder / "none.txt", {});
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_THAT(error.context, HasSubstr("none.txt: No such file or directory; dataset.path must be a text file"));
  error = refusal(folder.path(), {});
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_THAT(error.context, HasSubstr("no file in this folder ends in .txt"));
  folder.write("a.txt", "abcdef");
  error = refusal(folder / "a.txt", {{"context", 6}});
  EXPECT_EQ(error.code, Errc::malformed);
  EXPECT_THAT(error.context, HasSubstr("has 6 bytes, of which 6 are for training, and one example takes 7"));
  EXPECT_THAT(make(folder / "a.txt", {{"context", 2}})->test().error().context,
              HasSubstr("of which 0 are for testing, and one example takes 3"));
  error = refusal(folder / "a.txt", {{"context", 2}, {"vocabulary", 5}});
  EXPECT_EQ(error.code, Errc::malformed);
  EXPECT_THAT(error.context, HasSubstr("has 6 different bytes, and the dataset's parameter vocabulary allows 5"));
  error = refusal("/dev/zero", {});
  EXPECT_EQ(error.code, Errc::malformed);
  EXPECT_THAT(error.context, HasSubstr("/dev/zero is not a file"));
  fs::resize_file(folder / "a.txt", std::uint64_t{UINT32_MAX} + 1);  // takes no room
  error = refusal(folder / "a.txt", {});
  EXPECT_EQ(error.code, Errc::malformed);
  EXPECT_THAT(error.context, HasSubstr("has 4294967296 bytes; at most 4294967295 are read"));
}

/// How often each pair of tokens follows each other.
std::map<std::pair<std::int64_t, std::int64_t>, double> pairs_of(const Examples& examples) {
  std::map<std::pair<std::int64_t, std::int64_t>, double> pairs;
  for (std::uint32_t i = 0; i < examples.classes().size(); ++i) {
    const auto batch = one(examples, i);
    const auto input = tokens_of(batch.input);
    const auto target = tokens_of(batch.target);
    for (std::size_t t = 0; t < input.size(); ++t) ++pairs[{input[t], target[t]}];
  }
  return pairs;
}

TEST(SyntheticText, HasARuleThatAModelCanLearn) {
  const nlohmann::json params{{"vocabulary", 16}, {"train_examples", 500}, {"test_examples", 100}};
  const auto dataset = datasets().make("synthetic-text", params, "").value();
  const auto train = dataset->train().value();
  const auto test = dataset->test().value();
  EXPECT_EQ(train->classes().size(), 500u);
  EXPECT_TRUE(one(*train, 7).input.equal(one(*dataset->train().value(), 7).input));
  EXPECT_FALSE(one(*train, 7).input.equal(one(*test, 7).input));
  const auto learned = pairs_of(*train);
  std::vector<double> totals(16);
  for (const auto& [pair, count] : learned) totals[static_cast<std::size_t>(pair.first)] += count;
  double loss = 0;
  double tested = 0;
  for (const auto& [pair, count] : pairs_of(*test)) {
    const auto found = learned.find(pair);
    const double seen = found == learned.end() ? 0.1 : found->second;
    loss -= count * std::log(seen / totals[static_cast<std::size_t>(pair.first)]);
    tested += count;
  }
  loss /= tested;
  EXPECT_LT(loss, 0.6 * std::log(16.0));  // guessing is at log 16
  EXPECT_GT(loss, 0.5);
}

TEST(SyntheticText, RefusesAPath) {
  const auto made = datasets().make("synthetic-text", nullptr, "/somewhere");
  EXPECT_EQ(made.error().code, Errc::invalid_argument);
  EXPECT_THAT(made.error().context, HasSubstr("has no files: leave dataset.path out"));
}

}  // namespace
}  // namespace weir::training
