#include "runtime/actor_ref.hpp"

#include <spdlog/spdlog.h>
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>

namespace weir::runtime::detail {

Error error_of_current_exception(std::string_view actor_type) {
  try {
    throw;
  } catch (const boost::system::system_error& e) {
    if (e.code() == net::error::operation_aborted) return {Errc::cancelled, std::string(actor_type)};
    spdlog::error("actor {}: a method threw: {}", actor_type, e.what());
    return {e.code(), std::string(actor_type)};
  } catch (const std::exception& e) {
    spdlog::error("actor {}: a method threw: {}", actor_type, e.what());
    return {Errc::internal, std::string(actor_type) + ": " + e.what()};
  } catch (...) {
    spdlog::error("actor {}: a method threw something that is no std::exception", actor_type);
    return {Errc::internal, std::string(actor_type)};
  }
}

}  // namespace weir::runtime::detail
