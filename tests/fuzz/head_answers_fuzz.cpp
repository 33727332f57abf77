// What a head may send to the commands in parts of any length: events, and metrics as CSV.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/ensure.hpp"
#include "cli/metric_summary.hpp"
#include "cli/server_sent_events.hpp"

namespace {

using weir::ensure;
using weir::cli::EventParser;
using weir::cli::MetricSummary;

/// Calls take(part) for parts of `part_bytes` bytes, until it returns false.
template <class Take>
void in_parts(std::string_view text, std::size_t part_bytes, const Take& take) {
  for (; !text.empty(); text.remove_prefix(std::min(part_bytes, text.size()))) {
    if (!take(text.substr(0, part_bytes))) return;
  }
}

struct Events {
  std::vector<std::tuple<std::optional<std::string>, std::string, std::string>> all;  ///< id, name, data
  std::optional<std::string> last_id;

  friend bool operator==(const Events&, const Events&) = default;
};

Events events_in(std::string_view text, std::size_t part_bytes) {
  Events events;
  EventParser parser;
  in_parts(text, part_bytes, [&](std::string_view part) {
    ensure(parser.feed(part).has_value(), "a stream that is short is taken");
    while (const auto event = parser.next()) events.all.emplace_back(event->id, event->name, event->data);
    return true;
  });
  events.last_id = parser.last_id();
  return events;
}

struct Metrics {
  bool read = true;
  std::vector<std::tuple<std::string, std::string, std::uint64_t>> series;  ///< name, worker, points

  friend bool operator==(const Metrics&, const Metrics&) = default;
};

Metrics metrics_in(std::string_view text, std::size_t part_bytes) {
  Metrics metrics;
  MetricSummary summary;
  in_parts(text, part_bytes, [&](std::string_view part) {
    metrics.read = summary.add(part).has_value();
    return metrics.read;
  });
  for (const auto& series : summary.series()) metrics.series.emplace_back(series.name, series.worker, series.points);
  return metrics;
}

}  // namespace

/// Byte 0 says how long the parts are. In one piece, the text must be read in the same way.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t part_bytes = 1 + data[0] % 16;
  ensure(events_in(text, part_bytes) == events_in(text, text.size()), "events do not depend on how they arrive");
  ensure(metrics_in(text, part_bytes) == metrics_in(text, text.size()), "metrics do not depend on how they arrive");
  return 0;
}
