#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/ensure.hpp"

namespace weir::cluster {

/// A directory that is removed at the end of the test.
class TemporaryDir {
 public:
  TemporaryDir() {
    std::string name = (std::filesystem::temp_directory_path() / "weir-test-XXXXXX").string();
    ensure(::mkdtemp(name.data()) != nullptr, "a temporary directory can be made");
    path_ = name;
  }
  ~TemporaryDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace weir::cluster
