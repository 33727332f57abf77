#pragma once

#include <boost/system/error_code.hpp>

namespace weir {

/// The failures that every module can meet. A module with failures of its own has its own `errc.hpp`.
enum class Errc {
  invalid_argument = 1,  ///< a caller's value is outside what is allowed; the context says what is
  not_found,             ///< no such thing under that name or id
  conflict,              ///< the thing is in a state that forbids this
  deadline_exceeded,     ///< no answer within the deadline
  cancelled,             ///< given up because the caller or the process is stopping
  peer_lost,             ///< the other process went away while something was under way
  mailbox_full,          ///< the actor has more work waiting than it accepts
  malformed,             ///< bytes or text that do not follow their format
  unauthenticated,       ///< the other side did not prove that it knows the secret
  unsupported,           ///< well-formed, but of a version or kind this build does not have
  io,                    ///< the operating system refused a read, write or socket operation
  exhausted,             ///< a stated limit is reached
  internal,              ///< a library threw; the context has its message
};

const boost::system::error_category& weir_category() noexcept;
inline boost::system::error_code make_error_code(Errc e) noexcept { return {static_cast<int>(e), weir_category()}; }

}  // namespace weir

template <>
struct boost::system::is_error_code_enum<weir::Errc> : std::true_type {};
