#include "cli/server_sent_events.hpp"

#include <utility>

#include "base/errc.hpp"

namespace weir::cli {

Result<void> EventParser::feed(std::string_view bytes) {
  buffer_.erase(0, std::exchange(begin_, 0));
  if (buffer_.size() + current_.data.size() + bytes.size() > event_bytes_max) {
    return Error{Errc::malformed, "the head sends an event that does not end"};
  }
  buffer_ += bytes;
  return {};
}

std::optional<std::string> EventParser::take_line() {
  const std::size_t end = buffer_.find_first_of("\r\n", begin_);
  if (end == std::string::npos) return std::nullopt;
  // A CR at the very end may still be followed by an LF.
  if (buffer_[end] == '\r' && end + 1 == buffer_.size()) return std::nullopt;
  std::string line = buffer_.substr(begin_, end - begin_);
  begin_ = end + (buffer_[end] == '\r' && buffer_[end + 1] == '\n' ? 2 : 1);
  return line;
}

std::optional<ServerSentEvent> EventParser::next() {
  while (auto line = take_line()) {
    if (line->empty()) {
      ServerSentEvent done = std::exchange(current_, {});
      if (done.id) last_id_ = done.id;
      if (std::exchange(has_data_, false)) return done;
      continue;  // an event without data is dropped
    }
    const std::size_t colon = line->find(':');
    const std::string field = line->substr(0, colon);
    std::string value = colon == std::string::npos ? "" : line->substr(colon + 1);
    if (!value.empty() && value.front() == ' ') value.erase(0, 1);
    if (field == "id") {
      current_.id = value;
    } else if (field == "event") {
      current_.name = value;
    } else if (field == "data") {
      if (has_data_) current_.data += '\n';
      current_.data += value;
      has_data_ = true;
    }
  }
  return std::nullopt;
}

}  // namespace weir::cli
