#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace weir::training::testing {

/// A folder of its own for one test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "weir-datasets-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& file) const { return path_ + "/" + file; }
  const std::string& path() const { return path_; }

  void write(const std::string& file, std::string_view bytes) const {
    std::ofstream(*this / file, std::ios::binary) << bytes;
  }

 private:
  std::string path_;
};

}  // namespace weir::training::testing
