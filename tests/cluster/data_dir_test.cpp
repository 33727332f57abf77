#include "cluster/data_dir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/errc.hpp"
#include "tests/cluster/limited_files.hpp"
#include "tests/cluster/temporary_dir.hpp"

namespace weir::cluster {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

TEST(DataDir, IsHeldByOneHeadOnly) {
  TemporaryDir dir;
  {
    auto first = DataDir::open(dir.path() / "data");
    ASSERT_TRUE(first) << first.error().message();
    const auto second = DataDir::open(dir.path() / "data");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Errc::conflict);
    EXPECT_THAT(second.error().context, HasSubstr("process " + std::to_string(::getpid())));
  }
  EXPECT_TRUE(DataDir::open(dir.path() / "data"));
}

TEST(DataDir, TellsWhetherAHeadHoldsIt) {
  TemporaryDir dir;
  EXPECT_EQ(DataDir::is_held(dir.path()), false);
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "lock"));
  {
    const auto head = DataDir::open(dir.path());
    ASSERT_TRUE(head) << head.error().message();
    EXPECT_EQ(DataDir::is_held(dir.path()), true);
  }
  EXPECT_EQ(DataDir::is_held(dir.path()), false);
}

TEST(DataDir, IsHeldThoughNothingCanBeWrittenToIt) {
  TemporaryDir dir;
  const LimitedFiles none(0);
  const auto first = DataDir::open(dir.path());
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(DataDir::open(dir.path()).error().code, Errc::conflict);
}

TEST(DataDir, MakesATokenOnceAndKeepsItPrivate) {
  TemporaryDir dir;
  auto data = DataDir::open(dir.path());
  ASSERT_TRUE(data);
  EXPECT_EQ(read_secret_file(dir.path() / "token").error().code, Errc::not_found);
  const auto token = data->token();
  ASSERT_TRUE(token);
  EXPECT_THAT(*token, SizeIs(64));
  EXPECT_EQ(*data->token(), *token);
  EXPECT_EQ(*read_secret_file(dir.path() / "token"), *token);
  struct stat status {};
  ASSERT_EQ(::stat((dir.path() / "token").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_EQ(::chmod((dir.path() / "token").c_str(), 0644), 0);
  EXPECT_THAT(data->token().error().context, HasSubstr("chmod 600"));
}

TEST(DataDir, NodesHaveASecretOfTheirOwn) {
  TemporaryDir dir;
  auto data = DataDir::open(dir.path());
  ASSERT_TRUE(data);
  const auto secret = data->node_secret();
  ASSERT_TRUE(secret);
  EXPECT_THAT(*secret, SizeIs(64));
  EXPECT_NE(*secret, *data->token());
  EXPECT_EQ(*data->node_secret(), *secret);
  EXPECT_EQ(*read_secret_file(dir.path() / node_secret_file), *secret);
  struct stat status {};
  ASSERT_EQ(::stat((dir.path() / node_secret_file).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(DataDir, AnEmptyTokenFileIsRefused) {
  TemporaryDir dir;
  std::ofstream(dir.path() / "token") << "\n";
  ASSERT_EQ(::chmod((dir.path() / "token").c_str(), 0600), 0);
  EXPECT_EQ(read_secret_file(dir.path() / "token").error().code, Errc::malformed);
}

TEST(DataDir, WritesFilesWhole) {
  TemporaryDir dir;
  const auto file = dir.path() / "file";
  ASSERT_TRUE(write_file_atomically(file, "one"));
  ASSERT_TRUE(write_file_atomically(file, "two"));
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "two");
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".new"));
  EXPECT_EQ(write_file_atomically(dir.path() / "no" / "file", "x").error().code, Errc::io);
}

TEST(DataDir, AFileThatCouldNotBePutInPlaceLeavesNothing) {
  TemporaryDir dir;
  const auto file = dir.path() / "file";
  std::filesystem::create_directories(file / "taken");
  EXPECT_EQ(write_file_atomically(file, "one").error().code, Errc::io);
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".new"));
}

}  // namespace
}  // namespace weir::cluster
