#include "training/exchange/codec_thread.hpp"

#include <gtest/gtest.h>

#include <future>
#include <string>

#include "base/errc.hpp"
#include "collectives/task.hpp"
#include "ranks.hpp"

namespace weir::training::testing {
namespace {

using collectives::Task;

constexpr std::chrono::minutes long_enough{1};

/// The loop of a group of one rank, and threads that compute for it.
class CodecThreadsTest : public ::testing::Test {
 protected:
  ~CodecThreadsTest() override {
    codecs_.stop();
    run([this] { tasks_.clear(); });
  }

  void run(const std::function<void()>& work) { group_[0]->thread().call(work); }
  /// What the threads and the loop do may use what the test has on its stack until this returns.
  void finish() {
    codecs_.stop();
    run([] {});
  }
  /// Begins a task that does `work` on one of the threads.
  template <class Work>
  void begin(CodecThread& thread, bool urgent, Work work) {
    run([&] {
      tasks_.push_back(compute(thread, urgent, std::move(work)));
      tasks_.back().start();
    });
  }

  Group group_ = collectives::in_process_group(1);
  CodecThreads codecs_{group_[0]->thread().loop()};
  std::vector<Task<>> tasks_;

 private:
  template <class Work>
  static Task<> compute(CodecThread& thread, bool urgent, Work work) {
    Computation computing(thread, urgent, std::move(work));
    co_return co_await computing;
  }
};

TEST_F(CodecThreadsTest, UrgentWorkIsDoneBeforeWorkThatWasBegunEarlier) {
  std::promise<void> first_has_begun;
  std::promise<void> all_are_begun;
  std::promise<std::string> done;
  std::string order;
  const auto note = [&](char name) {
    order += name;
    if (order.size() == 5) done.set_value(order);
    return Result<void>();
  };
  begin(codecs_.encoder, false, [&] {
    first_has_begun.set_value();
    all_are_begun.get_future().wait();
    return note('a');
  });
  ASSERT_EQ(first_has_begun.get_future().wait_for(long_enough), std::future_status::ready);
  begin(codecs_.encoder, false, [&] { return note('b'); });
  begin(codecs_.encoder, false, [&] { return note('c'); });
  begin(codecs_.encoder, true, [&] { return note('D'); });
  begin(codecs_.encoder, true, [&] { return note('E'); });
  all_are_begun.set_value();
  auto all = done.get_future();
  ASSERT_EQ(all.wait_for(long_enough), std::future_status::ready);
  EXPECT_EQ(all.get(), "aDEbc");
  finish();
}

// Each waits for the other: one after the other, neither would end.
TEST_F(CodecThreadsTest, EncodingAndDecodingGoOnSideBySide) {
  std::promise<void> encodes;
  std::promise<void> decodes;
  std::promise<bool> done;
  begin(codecs_.encoder, false, [&] {
    encodes.set_value();
    done.set_value(decodes.get_future().wait_for(long_enough) == std::future_status::ready);
    return Result<void>();
  });
  begin(codecs_.decoder, false, [&] {
    decodes.set_value();
    const bool beside = encodes.get_future().wait_for(long_enough) == std::future_status::ready;
    return beside ? Result<void>() : Error{Errc::internal, "nothing is encoded meanwhile"};
  });
  EXPECT_TRUE(done.get_future().get());
  finish();
}

TEST_F(CodecThreadsTest, AnExceptionIsTheErrorOfTheTask) {
  std::promise<Result<void>> ended;
  run([&] {
    tasks_.push_back([](CodecThread& thread, std::promise<Result<void>>& result) -> Task<> {
      Computation computing(thread, false, []() -> Result<void> { throw std::runtime_error("out of paper"); });
      auto done = co_await computing;
      result.set_value(done);
      co_return done;
    }(codecs_.decoder, ended));
    tasks_.back().start();
  });
  const auto result = ended.get_future().get();
  finish();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::internal);
  EXPECT_NE(result.error().message().find("out of paper"), std::string::npos);
}

}  // namespace
}  // namespace weir::training::testing
