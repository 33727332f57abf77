#include "cli/download.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/errc.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"

namespace weir::cli {
namespace {

Error io_error(const std::string& what) { return {Errc::io, what + ": " + std::generic_category().message(errno)}; }

}  // namespace

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> NewFile::open() {
  descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  return descriptor_ < 0 ? io_error("cannot make a file beside " + name_) : Result<void>();
}

Result<void> NewFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error("cannot write " + temporary_);
    bytes.remove_prefix(static_cast<std::size_t>(written));
    size_ += static_cast<std::uint64_t>(written);
  }
  return {};
}

Result<void> NewFile::keep(bool replace) {
  if (::fchmod(descriptor_, 0644) != 0 || ::fsync(descriptor_) != 0) return io_error("cannot write " + temporary_);
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, name_.c_str(), replace ? 0 : RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST) return Error{Errc::conflict, name_ + " has come to be meanwhile; --force replaces it"};
    return io_error("cannot make " + name_);
  }
  temporary_.clear();
  return {};
}

Result<void> check_free(const std::string& name, bool replace) {
  std::error_code ignored;
  if (replace || !std::filesystem::exists(std::filesystem::symlink_status(name, ignored))) return {};
  return Error{Errc::conflict, name + " is there already; --force replaces it"};
}

Result<std::uint64_t> print_body(const Api& api, const std::string& target) {
  std::uint64_t bytes = 0;
  auto done = api.client().download(target, [&](std::string_view part) -> Result<void> {
    bytes += part.size();
    if (pass_on(part)) return {};
    return unwritable();
  });
  if (!done) return done.error();
  if (!end_passing_on()) return unwritable();
  return bytes;
}

int pass_body_on(const Api& api, const std::string& target) {
  auto printed = print_body(api, target);
  if (printed) return ExitCode::ok;
  const int code = complain(printed.error());
  end_passing_on();
  return code;
}

}  // namespace weir::cli
