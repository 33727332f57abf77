#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace weir::api {

/// The session of one browser that is logged in.
struct Session {
  using Time = std::chrono::system_clock::time_point;

  std::string id;
  Time created_at;
  Time expires_at;      ///< fixed at the beginning: using a session does not extend it
  std::string address;  ///< of the browser, when it logged in
  std::string agent;    ///< the browser's User-Agent then
};

/// All sessions. A session begins with a proof of the head's token and ends when its time is over, when it is revoked,
/// or when the token changes. With a file, sessions outlive a restart of the head; the file holds no secrets, only MACs
/// of them under the token. Owned by Access. Thread-safe.
class Sessions {
 public:
  struct Options {
    std::string token;
    std::filesystem::path file;  ///< "": sessions end with this process
    std::chrono::seconds lifetime = std::chrono::hours(24 * 30);
    std::size_t sessions_max = 4096;  ///< beginning one more ends the one that was not used for longest
    std::function<Session::Time()> now = [] { return std::chrono::system_clock::now(); };
  };

  explicit Sessions(Options options) : options_(std::move(options)) {}

  /// Begins a session and returns the secret that its browser sends from then on.
  std::string begin(std::string address, std::string agent);

  /// The id of the session with this secret, if it is valid.
  std::optional<std::string> find(std::string_view secret) const;

  /// Whether the session with this id is valid.
  bool holds(std::string_view id) const;

  /// The valid sessions, newest first.
  std::vector<Session> list() const;

  /// Ends a session, also in the file. Returns false if there is none with this id. Blocks on the disk. Fails with: as
  /// save(); then the session goes on, since the file would bring it back at the next start.
  Result<bool> revoke(std::string_view id);
  /// The same for all sessions; returns how many there were.
  Result<std::size_t> revoke_all();

  std::chrono::seconds lifetime() const { return options_.lifetime; }

  /// Loads the sessions that an earlier run has saved; a missing file means none.
  /// Fails with: malformed (not a file of ours), io.
  Result<void> load();
  /// Writes the valid sessions to the file. Blocks on the disk. Fails with: io, exhausted (disk full).
  Result<void> save() const;

 private:
  struct Entry {
    Session session;
    std::string mac;             ///< of the secret, under the token
    mutable Session::Time used;  ///< last by its browser, as far as this process knows
  };

  using Entries = std::map<std::string, Entry, std::less<>>;  // by id

  std::string mac_of(std::string_view secret) const;
  /// What the file has of the token, by which a later run knows whether it is still the same.
  std::string token_mark() const;
  void forget_expired();
  void end_least_used(std::size_t most);
  Result<void> save_without(Entries ended);

  Options options_;
  mutable std::mutex file_mutex_;  ///< one save at a time, the newest state last
  mutable std::mutex mutex_;       ///< guards entries_
  Entries entries_;
};

}  // namespace weir::api
