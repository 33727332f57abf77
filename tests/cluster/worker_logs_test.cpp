#include "cluster/attempt/worker_logs.hpp"

#include <gtest/gtest.h>

#include <boost/asio/strand.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cluster/sqlite_store.hpp"
#include "tests/cluster/bare_services.hpp"
#include "tests/cluster/temporary_dir.hpp"

namespace weir::cluster {
namespace {

net::awaitable<Result<void>> outcome(net::awaitable<Result<std::optional<WorkerLogs::Unpublished>>> call) {
  const auto appended = co_await std::move(call);
  if (!appended) co_return appended.error();
  co_return Result<void>();
}

/// Logs of a job whose files are on a disk that may be slow.
class WorkerLogsTest : public ::testing::Test {
 protected:
  WorkerLogsTest() {
    services_.options.data_dir = dir_.path();
    services_.logs = net::make_strand(disk_->executor());
    services_.store = open_sqlite_store({.file = dir_.path() / "weir.db"}, net::make_strand(simulation_.executor()),
                                        simulation_.executor())
                          .value();
  }

  /// Appends a piece; what comes of it is known later.
  Answer append(WorkerLogs& logs, std::uint64_t offset, std::string text) {
    return begin(services_, simulation_, outcome(logs.append(0, offset, std::move(text))));
  }
  std::string text() const { return job_files::read_log(file(), 0, 1000)->text; }
  std::filesystem::path file() const { return job_files::log_file(services_.job_dir("job"), 0); }

  TemporaryDir dir_;
  runtime::testing::Simulation simulation_{1};
  std::unique_ptr<runtime::testing::SimulatedProcess> disk_ = simulation_.process();
  Services services_ = bare_services(simulation_);
};

TEST_F(WorkerLogsTest, AnAttemptBeginsBehindWhatTheOneBeforeHasPrinted) {
  WorkerLogs first(services_, "job", 1);
  disk_->stop();
  const auto old = append(first, 0, "the first attempt\n");
  WorkerLogs second(services_, "job", 1);
  const auto piece = append(second, 0, "the second\n");
  EXPECT_FALSE(*piece) << "the disk is slow";
  disk_->resume();
  simulation_.settle();
  EXPECT_TRUE(**old && **piece);
  EXPECT_EQ(text(), "the first attempt\nthe second\n");
}

TEST_F(WorkerLogsTest, ARepeatedPieceIsWrittenOnce) {
  WorkerLogs logs(services_, "job", 1);
  disk_->stop();
  append(logs, 0, "one\n");
  append(logs, 0, "one\ntwo\n");  // the link broke before the first was written
  disk_->resume();
  simulation_.settle();
  EXPECT_EQ(text(), "one\ntwo\n");
  std::filesystem::resize_file(file(), 0);
  append(logs, 8, "three\n");
  append(logs, 8, "three\n");
  append(logs, 14, "four\n");
  EXPECT_EQ(text(), "three\nfour\n") << "also when somebody has emptied the file";
}

TEST_F(WorkerLogsTest, ALogThatIsFullSaysSoOnceAndHoldsUpNobody) {
  WorkerLogs logs(services_, "job", 1);
  std::filesystem::create_directories(file().parent_path());
  std::ofstream(file()).flush();
  std::filesystem::resize_file(file(), job_files::log_bytes_kept - 3);
  for (const std::uint64_t offset : {0u, 0u, 5u}) {
    const auto answer = append(logs, offset, "12345");
    simulation_.settle();
    EXPECT_TRUE(**answer) << (*answer)->error().message();
  }
  EXPECT_EQ(job_files::read_log(file(), job_files::log_bytes_kept - 3, 1000)->text,
            "123\n... more output is not kept\n");
  std::filesystem::resize_file(file(), 0);
  append(logs, 10, "it goes on\n");
  EXPECT_EQ(text(), "it goes on\n") << "when somebody has made room";
}

TEST_F(WorkerLogsTest, WhatIsNotPublishedComesAgainWithWhatFollows) {
  WorkerLogs logs(services_, "job", 1);
  const auto append = [&](std::uint64_t offset, std::string text) {
    return simulation_.run(logs.append(0, offset, std::move(text))).value();
  };
  const auto text_of = [](const WorkerLogs::Unpublished& log) {
    return nlohmann::json::parse(log.item.data).at("text").get<std::string>();
  };
  ASSERT_TRUE(append(0, "one\n"));
  const auto repeated = append(0, "one\n");  // since the commit has failed
  ASSERT_TRUE(repeated);
  EXPECT_EQ(text_of(*repeated), "one\n");
  const auto both = append(4, "two\n");
  ASSERT_TRUE(both);
  EXPECT_EQ(text_of(*both), "one\ntwo\n");
  logs.published(0, both->end);
  EXPECT_FALSE(append(4, "two\n"));
  const auto third = append(8, "three\n");
  ASSERT_TRUE(third);
  EXPECT_EQ(text_of(*third), "three\n");
}

}  // namespace
}  // namespace weir::cluster
