#include "cluster/attempt/worker_logs.hpp"

#include <gtest/gtest.h>

#include <boost/asio/strand.hpp>
#include <optional>

#include "cluster/sqlite_store.hpp"
#include "tests/cluster/bare_services.hpp"
#include "tests/cluster/temporary_dir.hpp"

namespace weir::cluster {
namespace {

net::awaitable<Result<void>> outcome(net::awaitable<Result<std::optional<change::Publish>>> call) {
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

}  // namespace
}  // namespace weir::cluster
