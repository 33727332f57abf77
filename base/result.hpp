#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace weir {

/// An expected failure: which kind (`code`, from some module's Errc) and what it was about (`context`, one sentence
/// for people: what, where and, if there is one, what to do next).
struct Error {
  boost::system::error_code code;
  std::string context;

  Error() = default;
  Error(boost::system::error_code c, std::string what = {}) : code(c), context(std::move(what)) {}
  template <class Enum>
    requires boost::system::is_error_code_enum<Enum>::value
  Error(Enum e, std::string what = {}) : code(make_error_code(e)), context(std::move(what)) {}

  /// "context (category message)", the form for logs and `reason` fields.
  std::string message() const;

  /// This error as the cause of a wider one: "what: context".
  Error within(const std::string& what) const { return {code, context.empty() ? what : what + ": " + context}; }

  friend bool operator==(const Error& a, const Error& b) { return a.code == b.code && a.context == b.context; }
};

/// A value or an Error. Expected failures (peers, input, disk) travel this way; exceptions are left to libraries.
template <class T>
using Result = boost::system::result<T, Error>;

/// Thrown only by Result::value() on an error, that is, where the caller said it cannot happen.
struct BadResult : std::runtime_error {
  explicit BadResult(const Error& e) : std::runtime_error(e.message()), error(e) {}
  Error error;
};

[[noreturn]] void throw_exception_from_error(const Error& error, const boost::source_location& where);

}  // namespace weir
