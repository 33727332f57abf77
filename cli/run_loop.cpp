#include "cli/run_loop.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/strand.hpp>
#include <exception>
#include <thread>
#include <vector>

#include "cli/exit_code.hpp"
#include "runtime/event_loop.hpp"

namespace weir::cli {

namespace net = boost::asio;

int run_loop(net::io_context& io, net::awaitable<int> work, int threads) {
  int code = ExitCode::failed;
  std::exception_ptr failure;
  net::co_spawn(net::make_strand(io), std::move(work), [&](const std::exception_ptr& thrown, int outcome) {
    failure = thrown;
    code = outcome;
    io.stop();
  });
  if (threads == 1) {
    runtime::run(io);
  } else {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back([&io] { io.run(); });
    io.run();
  }
  if (failure) std::rethrow_exception(failure);
  return code;
}

}  // namespace weir::cli
