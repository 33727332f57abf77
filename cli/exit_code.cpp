#include "cli/exit_code.hpp"

#include "base/errc.hpp"

namespace weir::cli {

int exit_code(const Error& error) {
  if (error.code == Errc::invalid_argument || error.code == Errc::malformed) return ExitCode::usage;
  if (error.code == Errc::not_found) return ExitCode::not_found;
  if (error.code == Errc::unauthenticated) return ExitCode::no_access;
  if (error.code == Errc::peer_lost) return ExitCode::unreachable;
  if (error.code == Errc::deadline_exceeded) return ExitCode::timeout;
  if (error.code == Errc::cancelled) return ExitCode::interrupted;
  return ExitCode::failed;
}

}  // namespace weir::cli
