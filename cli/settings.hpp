#pragma once

#include <filesystem>
#include <string>

namespace weir::cli {

/// What every command knows: the global options, or the environment variables and defaults in their place.
struct Settings {
  std::string address;             ///< of the head's API, see Place; "" = look it up, see head_address
  std::string token;               ///< "" = the data directory's
  std::filesystem::path data_dir;  ///< never empty once the command line is read
  std::filesystem::path cacert;    ///< certificate authorities to believe; "" = the system's
  bool json = false;               ///< machine-readable output on stdout, and nothing else there
};

/// $WEIR_DATA_DIR, else $XDG_DATA_HOME/weir, else ~/.local/share/weir.
std::filesystem::path default_data_dir();

/// Where the head's API is: what was asked for, else what the head of this data directory has published, else
/// 127.0.0.1:8265.
std::string head_address(const Settings& settings);

/// The token that was given, else that of the data directory, else "". For who stays on this machine, or proves to
/// know the token without telling it.
std::string head_token(const Settings& settings);

/// The token to send to head_address(): the one that was given, wherever that is; else that of the data directory, but
/// only to the head that wrote it, which is at the address recorded beside it (127.0.0.1:8265 if there is none). Else
/// "", and the head will say that it needs one: this machine's token is nobody else's business.
std::string token_for_head(const Settings& settings);

/// The `weir-worker` program: beside this one, else "".
std::filesystem::path worker_program();

/// This program.
std::filesystem::path own_program();

}  // namespace weir::cli
