#include "cluster/run_on.hpp"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/errc.hpp"
#include "base/result.hpp"

namespace weir::cluster {
namespace {

/// Awaits `work` on a thread pool, as the head and the node do with their files.
template <class Work>
net::awaitable<std::invoke_result_t<Work&>> await_on(net::thread_pool& pool, Work work) {
  co_return co_await run_on(pool.get_executor(), std::move(work));
}

template <class Work>
std::invoke_result_t<Work&> run(Work work) {
  net::thread_pool pool(1);
  net::io_context io;
  std::optional<std::invoke_result_t<Work&>> value;
  std::exception_ptr thrown;
  net::co_spawn(io, await_on(pool, std::move(work)), [&](std::exception_ptr e, std::invoke_result_t<Work&> result) {
    thrown = std::move(e);
    value.emplace(std::move(result));
  });
  io.run();
  if (thrown) std::rethrow_exception(thrown);
  return std::move(*value);
}

TEST(RunOn, GivesWhatTheWorkReturns) {
  EXPECT_EQ(run([] { return 7; }), 7);
  EXPECT_EQ(run([] { return Result<std::string>("text"); }).value(), "text");
  EXPECT_EQ(run([] { return Result<void>(Error{Errc::io, "full"}); }).error(), (Error{Errc::io, "full"}));
}

TEST(RunOn, WhatTheWorkThrowsIsAnError) {
  EXPECT_EQ(run([]() -> Result<int> { throw std::bad_alloc(); }).error().code, Errc::exhausted);
  EXPECT_EQ(run([]() -> Result<int> { throw std::runtime_error("on purpose"); }).error(),
            (Error{Errc::internal, "on purpose"}));
  EXPECT_EQ(run([]() -> Result<void> { throw 7; }).error().code, Errc::internal);
}

TEST(RunOn, WorkWithoutAResultThrowsInItsCaller) {
  EXPECT_THROW(run([]() -> int { throw std::runtime_error("on purpose"); }), std::runtime_error);
}

}  // namespace
}  // namespace weir::cluster
