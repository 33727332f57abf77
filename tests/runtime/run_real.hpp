#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <optional>

#include "base/errc.hpp"
#include "base/result.hpp"
#include "runtime/asio.hpp"

namespace weir::runtime {

/// Runs `task` on a real event loop to its end. The limit only makes a broken test end.
template <class T>
Result<T> run_real(net::io_context& io, net::awaitable<Result<T>> task,
                   std::chrono::seconds limit = std::chrono::seconds(60)) {
  std::optional<Result<T>> value;
  net::co_spawn(io, std::move(task), [&](std::exception_ptr thrown, Result<T> result) {
    if (thrown) std::rethrow_exception(thrown);
    value = std::move(result);
  });
  const auto end = std::chrono::steady_clock::now() + limit;
  io.restart();
  while (!value && std::chrono::steady_clock::now() < end) {
    if (io.run_one_until(end) == 0 && io.stopped()) io.restart();
  }
  if (!value) return Error{Errc::deadline_exceeded, "the test's own limit"};
  return std::move(*value);
}

}  // namespace weir::runtime
