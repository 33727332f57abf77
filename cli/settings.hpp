#pragma once

#include <filesystem>
#include <string>

namespace weir::cli {

/// The settings of all commands: the global options, or the environment variables and defaults in their place.
struct Settings {
  std::string address;             ///< of the head's API, see Place; "" = look it up, see head_address
  std::string token;               ///< "" = the data directory's
  std::filesystem::path data_dir;  ///< never empty once the command line is read
  std::filesystem::path cacert;    ///< certificate authorities to trust; "" = the system's
  bool json = false;               ///< machine-readable output on stdout, and nothing else there
};

/// $WEIR_DATA_DIR, else $XDG_DATA_HOME/weir, else ~/.local/share/weir.
std::filesystem::path default_data_dir();

/// The address of the head's API: the one that was given, else the one that the head of this data directory has
/// published, else 127.0.0.1:8265.
std::string head_address(const Settings& settings);

/// The token that was given, else that of the data directory, else "". For uses that do not send the token anywhere.
std::string head_token(const Settings& settings);

/// The token to send to head_address(): the one that was given, wherever that is; else that of the data directory, but
/// only to the head that wrote it, while that runs: it is at the address recorded beside it (127.0.0.1:8265 if there is
/// none). Else "", and the head will answer that it needs one: this machine's token must not be sent to other servers,
/// nor to what listens on the port of a head that has ended.
std::string token_for_head(const Settings& settings);

/// The path of the `weir-worker` program: beside this one, else "".
std::filesystem::path worker_program();

/// The path of this program.
std::filesystem::path own_program();

}  // namespace weir::cli
