#include "api/sessions.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "api/secret.hpp"
#include "base/errc.hpp"
#include "base/printable.hpp"
#include "cluster/data_dir.hpp"

namespace weir::api {
namespace {

constexpr std::size_t id_length = 16;
constexpr std::size_t agent_bytes_max = 200;
constexpr std::size_t file_bytes_max = 8 * 1024 * 1024;  // more than the most sessions with the longest texts take
constexpr std::int64_t seconds_max = 9'000'000'000;      // limit of system_clock, which counts nanoseconds in 64 bits

std::int64_t seconds_of(Session::Time time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

Session::Time time_of(std::int64_t seconds) { return Session::Time(std::chrono::seconds(seconds)); }

}  // namespace

std::string Sessions::begin(std::string address, std::string agent) {
  const std::string id = random_hex().substr(0, id_length);
  std::string secret = id + random_hex();
  const std::lock_guard lock(mutex_);
  forget_expired();
  end_least_used(options_.sessions_max - 1);
  const auto now = options_.now();
  agent.resize(std::min(agent.size(), agent_bytes_max));  // a browser may send any User-Agent
  Session session{id, now, now + options_.lifetime, std::move(address), printable_line(agent)};
  entries_.emplace(id, Entry{std::move(session), mac_of(secret), now});
  return secret;
}

std::optional<std::string> Sessions::find(std::string_view secret) const {
  const std::string mac = mac_of(secret);
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(secret.substr(0, id_length));
  if (found == entries_.end() || !equal_secrets(found->second.mac, mac)) return std::nullopt;
  const auto now = options_.now();
  if (now >= found->second.session.expires_at) return std::nullopt;
  found->second.used = now;
  return found->first;
}

bool Sessions::holds(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  const auto now = options_.now();
  if (found == entries_.end() || now >= found->second.session.expires_at) return false;
  found->second.used = now;
  return true;
}

std::vector<Session> Sessions::list() const {
  std::vector<Session> sessions;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_)
      if (options_.now() < entry.session.expires_at) sessions.push_back(entry.session);
  }
  std::stable_sort(sessions.begin(), sessions.end(),
                   [](const Session& a, const Session& b) { return a.created_at > b.created_at; });
  return sessions;
}

Result<bool> Sessions::revoke(std::string_view id) {
  Entries ended;
  {
    const std::lock_guard lock(mutex_);
    forget_expired();
    const auto found = entries_.find(id);
    if (found == entries_.end()) return false;
    ended.insert(entries_.extract(found));
  }
  if (auto saved = save_without(std::move(ended)); !saved) return saved.error();
  return true;
}

Result<std::size_t> Sessions::revoke_all() {
  Entries ended;
  {
    const std::lock_guard lock(mutex_);
    forget_expired();
    ended.swap(entries_);
  }
  const std::size_t count = ended.size();
  if (auto saved = save_without(std::move(ended)); !saved) return saved.error();
  return count;
}

/// Saves after these have ended. If that fails, they have not.
Result<void> Sessions::save_without(Entries ended) {
  auto saved = save();
  if (saved) return saved;
  const std::lock_guard lock(mutex_);
  entries_.merge(ended);
  end_least_used(options_.sessions_max);  // others may have begun meanwhile
  return saved;
}

Result<void> Sessions::load() {
  if (options_.file.empty()) return {};
  std::ifstream file(options_.file, std::ios::binary);
  if (!file) {
    std::error_code ignored;
    if (!std::filesystem::exists(options_.file, ignored)) return {};
    return Error{Errc::io, "cannot open " + options_.file.string()};
  }
  std::string text(file_bytes_max, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const Error bad{Errc::malformed, options_.file.string() + " is not a list of sessions"};
  const auto listed = nlohmann::json::parse(text, nullptr, false);
  if (!listed.is_array()) return bad;
  Entries entries;
  for (const auto& one : listed) {
    if (!one.is_object()) return bad;
    for (const char* name : {"id", "mac", "token", "address", "agent"})
      if (!one.contains(name) || !one[name].is_string()) return bad;
    for (const char* name : {"created_at", "expires_at"})
      if (!one.contains(name) || !one[name].is_number_integer() || one[name] < 0 || one[name] > seconds_max) return bad;
    Entry entry{{one["id"], time_of(one["created_at"]), time_of(one["expires_at"]), one["address"], one["agent"]},
                one["mac"],
                time_of(one["created_at"])};
    if (entry.session.id.size() != id_length) return bad;
    if (one["token"] != token_mark()) continue;  // nobody finds it any more
    if (entries.size() == options_.sessions_max) return bad;
    entries.emplace(entry.session.id, std::move(entry));
  }
  const std::lock_guard lock(mutex_);
  entries_ = std::move(entries);
  forget_expired();
  return {};
}

Result<void> Sessions::save() const {
  if (options_.file.empty()) return {};
  const std::lock_guard one_at_a_time(file_mutex_);
  auto listed = nlohmann::json::array();
  const std::string mark = token_mark();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_) {
      listed.push_back({{"id", id},
                        {"mac", entry.mac},
                        {"token", mark},
                        {"created_at", seconds_of(entry.session.created_at)},
                        {"expires_at", seconds_of(entry.session.expires_at)},
                        {"address", entry.session.address},
                        {"agent", entry.session.agent}});
    }
  }
  const auto text = listed.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  return cluster::write_file_atomically(options_.file, text + "\n", 0600);
}

std::string Sessions::mac_of(std::string_view secret) const {
  return mac_hex(options_.token, "weir session " + std::string(secret));
}

std::string Sessions::token_mark() const { return mac_hex(options_.token, "weir token of sessions"); }

/// Ends sessions until there are no more than `most`.
void Sessions::end_least_used(std::size_t most) {
  while (entries_.size() > most) {
    entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                    [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
}

void Sessions::forget_expired() {
  const auto now = options_.now();
  std::erase_if(entries_, [now](const auto& entry) { return now >= entry.second.session.expires_at; });
}

}  // namespace weir::api
