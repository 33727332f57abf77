#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "cli/api.hpp"

namespace weir::cli {

/// A file that appears under its name only when it is complete. Until then its bytes are in a file beside it, which is
/// deleted with this object. Fails with: io.
class NewFile {
 public:
  explicit NewFile(std::string name) : name_(std::move(name)), temporary_(name_ + ".part-XXXXXX") {}
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  Result<void> open();
  Result<void> append(std::string_view bytes);
  std::uint64_t size() const { return size_; }

  /// Gives the file its name. Fails with: conflict (there is one already and `replace` is false), io.
  Result<void> keep(bool replace);

 private:
  const std::string name_;
  std::string temporary_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Fails with: conflict (there is a file with this name already and `replace` is false).
Result<void> check_free(const std::string& name, bool replace);

/// Prints a body of any size on standard output as it arrives. Returns its bytes. After an error, which complain() may
/// report, end_passing_on() is still to be called.
/// Fails with: the errors of HttpClient::download(), io (standard output does not take it).
Result<std::uint64_t> print_body(const Api& api, const std::string& target);

/// The same, for a command that does nothing else: reports an error and returns the exit code.
int pass_body_on(const Api& api, const std::string& target);

}  // namespace weir::cli
