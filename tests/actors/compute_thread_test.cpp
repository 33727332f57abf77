#include "actors/compute_thread.hpp"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <stdexcept>
#include <string>

#include "base/errc.hpp"

namespace weir::actors {
namespace {

/// What becomes of work that does that.
Error error_after(void (*fails)()) {
  net::io_context io;
  ComputeThread thread;
  const auto work = [fails]() -> Result<int> {
    fails();
    return 1;
  };
  auto done = net::co_spawn(io, thread.run(work), net::use_future);
  io.run();
  return done.get().error();
}

TEST(ComputeThread, WhatLibTorchThrowsIsATypedErrorOfOneLine) {
  const Error full = error_after([] { TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory.\nOf that"); });
  EXPECT_EQ(full.code, Errc::exhausted);
  EXPECT_NE(full.context.find("CUDA out of memory"), std::string::npos) << full.context;
  const Error wrong = error_after([] { TORCH_CHECK(false, "sizes do not match"); });
  EXPECT_EQ(wrong, Error(Errc::internal, "sizes do not match")) << "without LibTorch's backtrace";
  EXPECT_EQ(full.context.find('\n'), std::string::npos) << full.context;
  EXPECT_EQ(error_after([] { throw std::runtime_error("of another"); }), Error(Errc::internal, "of another"));
}

}  // namespace
}  // namespace weir::actors
