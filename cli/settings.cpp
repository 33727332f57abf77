#include "cli/settings.hpp"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace weir::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// The whole of a small file, or "".
std::string read_small(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string text(4096, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

std::filesystem::path default_data_dir() {
  if (auto given = variable("WEIR_DATA_DIR"); !given.empty()) return given;
  if (auto data = variable("XDG_DATA_HOME"); !data.empty()) return std::filesystem::path(data) / "weir";
  if (auto home = variable("HOME"); !home.empty()) return std::filesystem::path(home) / ".local/share/weir";
  return ".weir";
}

std::string head_address(const Settings& settings) {
  if (!settings.address.empty()) return settings.address;
  const auto published = nlohmann::json::parse(read_small(settings.data_dir / "endpoints.json"), nullptr, false);
  if (published.is_object() && published.contains("http") && published["http"].is_string()) return published["http"];
  return "127.0.0.1:8265";
}

std::string head_token(const Settings& settings) {
  if (!settings.token.empty()) return settings.token;
  std::string token = read_small(settings.data_dir / "token");
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) token.pop_back();
  return token;
}

std::filesystem::path own_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

std::filesystem::path worker_program() {
  const auto path = own_program().parent_path() / "weir-worker";
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path : std::filesystem::path();
}

}  // namespace weir::cli
