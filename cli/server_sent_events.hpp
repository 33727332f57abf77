#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weir::cli {

/// One event of a text/event-stream.
struct ServerSentEvent {
  std::optional<std::string> id;  ///< if the event carries one
  std::string name = "message";
  std::string data;
};

/// Parses a text/event-stream as it arrives (WHATWG HTML, 9.2.6). Comments and `retry` are dropped.
class EventParser {
 public:
  /// Larger events are refused.
  static constexpr std::size_t event_bytes_max = 16 * 1024 * 1024;

  /// Appends bytes of the stream. Fails with: malformed (an event without end).
  Result<void> feed(std::string_view bytes);

  /// The next complete event, if there is one.
  std::optional<ServerSentEvent> next();

  /// The last id that came so far, also without an event: the place from which to go on. Empty if none has come.
  const std::optional<std::string>& last_id() const { return last_id_; }

 private:
  std::optional<std::string> take_line();

  std::string buffer_;
  std::size_t begin_ = 0;  // beginning of the part not parsed yet
  ServerSentEvent current_;
  std::optional<std::string> last_id_;
  bool has_data_ = false;
};

}  // namespace weir::cli
