#include "cli/settings.hpp"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cluster/data_dir.hpp"

namespace weir::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// The content of a small file, or "".
std::string read_small(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string text(4096, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

/// The address of the data directory's head: the one it has published, else the default of a head.
std::string own_head(const Settings& settings) {
  const auto published = nlohmann::json::parse(read_small(settings.data_dir / "endpoints.json"), nullptr, false);
  if (published.is_object() && published.contains("http") && published["http"].is_string()) return published["http"];
  return "127.0.0.1:8265";
}

/// A parsed address, without "http://". All names of the loopback interface become the same.
struct Endpoint {
  std::string host;
  std::string port;
};

Endpoint endpoint(std::string_view address) {
  if (address.starts_with("http://")) address.remove_prefix(7);
  while (address.ends_with('/')) address.remove_suffix(1);
  const auto colon = address.rfind(':');
  std::string host(address.substr(0, colon));
  if (host == "localhost" || host == "[::1]") host = "127.0.0.1";
  return {host, std::string(colon == std::string_view::npos ? "" : address.substr(colon + 1))};
}

/// True if `asked` leads to the head that listens at `own`. A head that listens on all interfaces is also on loopback.
bool same_head(std::string_view asked, std::string_view own) {
  const Endpoint a = endpoint(asked);
  const Endpoint b = endpoint(own);
  const bool everywhere = b.host == "0.0.0.0" || b.host == "[::]";
  return a.port == b.port && (a.host == b.host || (everywhere && a.host == "127.0.0.1"));
}

}  // namespace

std::filesystem::path default_data_dir() {
  if (auto given = variable("WEIR_DATA_DIR"); !given.empty()) return given;
  if (auto data = variable("XDG_DATA_HOME"); !data.empty()) return std::filesystem::path(data) / "weir";
  if (auto home = variable("HOME"); !home.empty()) return std::filesystem::path(home) / ".local/share/weir";
  return ".weir";
}

std::string head_address(const Settings& settings) {
  return settings.address.empty() ? own_head(settings) : settings.address;
}

std::string head_token(const Settings& settings) {
  if (!settings.token.empty()) return settings.token;
  std::string token = read_small(settings.data_dir / "token");
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) token.pop_back();
  return token;
}

std::string token_for_head(const Settings& settings) {
  if (!settings.token.empty()) return settings.token;
  const bool own = settings.address.empty() || same_head(settings.address, own_head(settings));
  // Once the head has ended, its port may be another program's.
  return own && cluster::DataDir::is_held(settings.data_dir).value_or(true) ? head_token(settings) : "";
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
