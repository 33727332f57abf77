// What the store says of a file that it cannot write.

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <boost/asio/strand.hpp>
#include <cerrno>
#include <optional>

#include "base/errc.hpp"
#include "cluster/sqlite_store.hpp"
#include "cluster/store/sqlite.hpp"
#include "runtime/testing/simulation.hpp"
#include "tests/cluster/limited_files.hpp"
#include "tests/cluster/temporary_dir.hpp"

namespace weir::cluster {
namespace {

std::vector<Change> add_job(const std::string& id) {
  JobRecord job;
  job.id = id;
  job.spec = nlohmann::json::object();
  std::vector<Change> changes;
  changes.push_back(change::AddJob{std::move(job), "", ""});
  return changes;
}

class StoreFailures : public ::testing::Test {
 protected:
  std::filesystem::path file() const { return dir_.path() / "weir.db"; }
  Result<void> commit(std::vector<Change> changes) { return simulation_.run(store_->commit(std::move(changes))); }

  TemporaryDir dir_;
  runtime::testing::Simulation simulation_{1};
  std::shared_ptr<Store> store_ =
      open_sqlite_store({.file = file()}, net::make_strand(simulation_.executor()), simulation_.executor()).value();
};

/// All that SQLite writes is refused with this errno while one of these lives.
class RefusedWrites {
 public:
  explicit RefusedWrites(int why) {
    why_ = why;
    set("write", reinterpret_cast<sqlite3_syscall_ptr>(&refuse));
    set("pwrite", reinterpret_cast<sqlite3_syscall_ptr>(&refuse_at));
    set("pwrite64", reinterpret_cast<sqlite3_syscall_ptr>(&refuse_at));
  }
  ~RefusedWrites() { vfs_->xSetSystemCall(vfs_, nullptr, nullptr); }
  RefusedWrites(const RefusedWrites&) = delete;
  RefusedWrites& operator=(const RefusedWrites&) = delete;

 private:
  static ssize_t refuse(int, const void*, std::size_t) {
    errno = why_;
    return -1;
  }
  static ssize_t refuse_at(int, const void*, std::size_t, off_t) { return refuse(0, nullptr, 0); }
  /// SQLite may not use all of them: those it does not know are none.
  void set(const char* name, sqlite3_syscall_ptr call) { vfs_->xSetSystemCall(vfs_, name, call); }

  static inline int why_ = 0;
  sqlite3_vfs* vfs_ = sqlite3_vfs_find(nullptr);
};

/// The kind of the failure that executing this ends with, if any.
std::optional<boost::system::error_code> failure_of(Database& database, const std::string& sql) {
  try {
    database.execute(sql);
    return std::nullopt;
  } catch (const SqliteFailure& failure) {
    return failure.error.code;
  }
}

TEST_F(StoreFailures, AFullQuotaIsAFullDiskAndADefectIsNone) {
  const auto large = [](const std::string& id) {  // more than is written with the end of the transaction
    auto changes = add_job(id);
    changes.push_back(change::Publish{StreamKind::log, id, std::string(9 << 20, 'x')});
    return changes;
  };
  for (const int full : {ENOSPC, EDQUOT}) {
    const RefusedWrites none(full);
    EXPECT_EQ(commit(add_job("a")).error().code, Errc::exhausted) << full;
    EXPECT_EQ(commit(large("a")).error().code, Errc::exhausted) << full;
  }
  {
    const RefusedWrites none(EIO);
    EXPECT_EQ(commit(add_job("a")).error().code, Errc::io);
    EXPECT_EQ(commit(large("a")).error().code, Errc::io);
  }
  EXPECT_TRUE(commit(add_job("a")));
}

TEST_F(StoreFailures, AFileThatAnotherProgramHoldsIsOneToTryAgain) {
  Database other(file(), false);
  Database ours(file(), false);
  ours.execute("PRAGMA busy_timeout = 0");
  other.execute("BEGIN IMMEDIATE");
  EXPECT_EQ(failure_of(ours, "BEGIN IMMEDIATE"), make_error_code(Errc::exhausted));
  other.execute("COMMIT");
  EXPECT_EQ(failure_of(ours, "BEGIN IMMEDIATE"), std::nullopt);
  ours.execute("COMMIT");
}

TEST_F(StoreFailures, ATableThatIsReadIsOneToTryAgain) {
  Database database(file(), false);
  database.execute("CREATE TABLE more (x)");
  Statement& reading = database.prepare("SELECT name FROM sqlite_schema");
  ASSERT_TRUE(reading.step());
  EXPECT_EQ(failure_of(database, "DROP TABLE more"), make_error_code(Errc::exhausted));
  reading.reset();
  EXPECT_EQ(failure_of(database, "DROP TABLE more"), std::nullopt);
}

TEST_F(StoreFailures, ADiskThatRefusesToWriteIsATypedErrorAndTheStoreGoesOn) {
  ASSERT_TRUE(commit(add_job("before")));
  std::vector<Change> large = add_job("large");
  large.push_back(change::Publish{StreamKind::log, "large", std::string(4 << 20, 'x')});
  {
    const LimitedFiles limited(256 << 10);
    EXPECT_EQ(commit(std::move(large)).error().code, Errc::io);
  }
  EXPECT_TRUE(commit(add_job("after")));
  EXPECT_FALSE(*simulation_.run(store_->job("large")));
  EXPECT_TRUE(*simulation_.run(store_->job("before")));
}

TEST_F(StoreFailures, ACommitWithoutChangesFailsWhileTheDiskRefusesToWrite) {
  {
    const LimitedFiles none(1);
    const auto refused = commit(add_job("a"));
    const auto nothing = commit({});
    const auto again = commit({});
    EXPECT_FALSE(refused || nothing || again);
  }
  EXPECT_TRUE(commit({}));
  EXPECT_TRUE(commit(add_job("a")));
}

}  // namespace
}  // namespace weir::cluster
