#include "api/event_source.hpp"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <utility>
#include <vector>

namespace weir::api {
namespace {

using cluster::StreamKind;
using Batch = cluster::Subscription::Batch;

/// Gives the batches of a script, one after the other, and then empty ones.
class Scripted final : public cluster::Subscription {
 public:
  Scripted(std::uint64_t place, std::vector<Batch> batches) : place_(place), batches_(std::move(batches)) {}

  net::awaitable<Result<Batch>> next(std::chrono::milliseconds) override {
    Batch batch;
    batch.sequence = place_;
    if (given_ < batches_.size()) batch = batches_[given_++];
    place_ = batch.sequence;
    co_return batch;
  }
  std::uint64_t place() override { return place_; }
  void close() override {}

 private:
  std::uint64_t place_;
  std::vector<Batch> batches_;
  std::size_t given_ = 0;
};

class EventSourceTest : public ::testing::Test {
 protected:
  /// The next piece of the stream.
  std::string next() {
    if (!source_) {
      auto subscription = std::make_unique<Scripted>(5, std::move(batches));
      source_ = std::make_unique<EventSource>(std::move(subscription), options, open_);
    }
    net::io_context io;
    std::string piece;
    net::co_spawn(io, source_->next(), [&piece](const std::exception_ptr& thrown, Result<std::string> text) {
      EXPECT_FALSE(thrown);
      piece = text.value();
    });
    io.run();
    return piece;
  }

  std::vector<Batch> batches;
  EventSource::Options options;

 private:
  std::atomic<std::uint64_t> open_ = 0;
  std::unique_ptr<EventSource> source_;
};

TEST_F(EventSourceTest, TellsThePlaceOfAStreamOfTransientItems) {
  const cluster::StreamItem load{0, StreamKind::node, "", "{}"};
  for (int i = 0; i < 2; ++i) batches.push_back({false, 7, {load}});
  EXPECT_EQ(next(), "retry: 1000\nid: 5\nevent: beat\ndata: {}\n\n");
  EXPECT_EQ(next(), "event: node\ndata: {}\n\nid: 7\nevent: beat\ndata: {}\n\n");
  EXPECT_EQ(next(), "event: node\ndata: {}\n\n") << "it has not moved";
}

TEST_F(EventSourceTest, TellsNoPlaceBehindAnEndThatIsHeldBack) {
  options.ends_with_job = true;
  const cluster::StreamItem end{8, StreamKind::job_end, "j1", "{}"};
  batches.push_back({false, 9, {end}});
  next();
  EXPECT_EQ(next(), ": ending\n\n");
  EXPECT_EQ(next(), "id: 8\nevent: job_end\ndata: {}\n\n");
  EXPECT_EQ(next(), "") << "it is over";
}

}  // namespace
}  // namespace weir::api
