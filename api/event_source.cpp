#include "api/event_source.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/problem.hpp"
#include "base/errc.hpp"

namespace weir::api {

EventSource::EventSource(std::unique_ptr<cluster::Subscription> subscription, Options options,
                         std::atomic<std::uint64_t>& open_streams)
    : subscription_(std::move(subscription)), options_(std::move(options)), open_streams_(open_streams) {
  ++open_streams_;
}

EventSource::~EventSource() { --open_streams_; }

net::awaitable<Result<std::string>> EventSource::next() {
  if (finished_ || !admitted()) co_return std::string();
  if (!begun_) {
    // So that the header and a place reach the client before the first item: one that loses the connection before that
    // misses nothing.
    begun_ = true;
    co_return "retry: 1000\n" + beat(subscription_->place());
  }
  const bool ending = end_ || options_.ended_job;
  const auto patience = ending ? options_.log_patience : options_.heartbeat;
  auto batch = co_await subscription_->next(patience);
  // The server stops: the body ends like a complete one, so that the client knows that nothing was cut off.
  if (!batch && batch.error().code == Errc::cancelled) co_return std::string();
  if (!batch) co_return batch.error();
  if (!admitted()) co_return std::string();
  if (batch->reset || !batch->items.empty()) co_return write(std::move(*batch));
  if (ending) co_return terminal_record();
  co_return beat(batch->sequence);
}

/// An event, since a browser shows a page neither comments nor an id alone: a page must see whether its connection is
/// dead. Its id keeps the place of a stream without events of its own from growing too old.
std::string EventSource::beat(std::uint64_t place) {
  place_ = place;
  return "id: " + std::to_string(place_) + "\nevent: beat\ndata: {}\n\n";
}

std::string EventSource::write(cluster::Subscription::Batch batch) {
  std::string text;
  if (batch.reset) {
    // The position just before the items that follow, so that a client that loses the connection here misses nothing.
    place_ = batch.items.empty() ? batch.sequence : batch.items.front().sequence - 1;
    const std::string place = std::to_string(place_);
    text = "id: " + place + "\nevent: reset\ndata: {\"sequence\":" + place + "}\n\n";
  }
  for (auto& item : batch.items) {
    if (options_.ends_with_job && item.kind == cluster::StreamKind::job_end) {
      end_ = std::move(item);
      continue;
    }
    if (options_.ends_with_job && item.kind == cluster::StreamKind::job_removed) {
      // Its log is gone, too: the end is told now, if there is one.
      if (end_ || options_.ended_job) text += terminal_record();
      finished_ = true;
    }
    text += event(item);
  }
  // Transient items tell no place, and may come so often that there is no other beat.
  if (!end_ && !finished_ && batch.sequence > place_) text += beat(batch.sequence);
  // There is only the end, which is held back: send a comment while waiting for the log.
  return text.empty() ? ": ending\n\n" : text;
}

std::string EventSource::event(const cluster::StreamItem& item) {
  std::string text;
  // A transient item has no position in the stream: without an id the client keeps the last one.
  if (item.sequence != 0) {
    place_ = item.sequence;
    text = "id: " + std::to_string(place_) + "\n";
  }
  return text + "event: " + std::string(cluster::to_string(item.kind)) + "\ndata: " + item.data + "\n\n";
}

std::string EventSource::terminal_record() {
  finished_ = true;
  cluster::StreamItem item;
  if (end_) {
    item = *end_;
    item.sequence = std::max(item.sequence, place_);  // what came while it was held back is not to come again
  } else {
    // The job's end is older than the position from which the client reads: sent again, without an id.
    item.kind = cluster::StreamKind::job_end;
    item.data = to_text(cluster::to_json(*options_.ended_job));
  }
  return event(item);
}

}  // namespace weir::api
