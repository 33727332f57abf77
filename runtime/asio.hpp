#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace weir {

namespace net = boost::asio;

namespace runtime {

/// The completion token of every socket and timer operation here: the coroutine gets (error_code, ...) and never an
/// exception, so the operation may stand in `a || b`.
inline constexpr auto nothrow = net::as_tuple(net::use_awaitable);

}  // namespace runtime
}  // namespace weir
