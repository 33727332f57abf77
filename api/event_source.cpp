#include "api/event_source.hpp"

#include <nlohmann/json.hpp>

#include "api/problem.hpp"
#include "base/errc.hpp"

namespace weir::api {
namespace {

std::string event(const cluster::StreamItem& item) {
  std::string text;
  // A transient item has no position in the stream: without an id the client keeps the last one.
  if (item.sequence != 0) text += "id: " + std::to_string(item.sequence) + "\n";
  return text + "event: " + std::string(cluster::to_string(item.kind)) + "\ndata: " + item.data + "\n\n";
}

}  // namespace

EventSource::EventSource(std::unique_ptr<cluster::Subscription> subscription, Options options,
                         std::atomic<std::uint64_t>& open_streams)
    : subscription_(std::move(subscription)), options_(std::move(options)), open_streams_(open_streams) {
  ++open_streams_;
}

EventSource::~EventSource() { --open_streams_; }

net::awaitable<Result<std::string>> EventSource::next() {
  if (finished_ || !admitted()) co_return std::string();
  if (!begun_) {
    // So that the header and this line reach the client before the first event.
    begun_ = true;
    co_return std::string("retry: 1000\n\n");
  }
  const bool ending = end_ || options_.ended_job;
  const auto patience = ending ? options_.log_patience : options_.heartbeat;
  auto batch = co_await subscription_->next(patience);
  // The server stops: the body ends like a complete one, so that the client knows that nothing was cut off.
  if (!batch && batch.error().code == Errc::cancelled) co_return std::string();
  if (!batch) co_return batch.error();
  if (!admitted()) co_return std::string();
  if (!batch->reset && batch->items.empty()) co_return ending ? terminal_record() : std::string(": still here\n\n");
  co_return write(std::move(*batch));
}

std::string EventSource::write(cluster::Subscription::Batch batch) {
  std::string text;
  if (batch.reset) {
    // The position just before the items that follow, so that a client that loses the connection here misses nothing.
    const auto before = batch.items.empty() ? batch.sequence : batch.items.front().sequence - 1;
    const std::string place = std::to_string(before);
    text = "id: " + place + "\nevent: reset\ndata: {\"sequence\":" + place + "}\n\n";
  }
  for (auto& item : batch.items) {
    if (options_.ends_with_job && item.kind == cluster::StreamKind::job_end)
      end_ = std::move(item);
    else
      text += event(item);
  }
  // There is only the end, which is held back: send a comment while waiting for the log.
  return text.empty() ? ": ending\n\n" : text;
}

std::string EventSource::terminal_record() {
  finished_ = true;
  if (end_) return event(*end_);
  // The job's end is older than the position from which the client reads: sent again, without an id.
  cluster::StreamItem item;
  item.kind = cluster::StreamKind::job_end;
  item.data = to_text(cluster::to_json(*options_.ended_job));
  return event(item);
}

}  // namespace weir::api
