#include "cluster/stream_hub.hpp"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <deque>
#include <functional>

#include "base/errc.hpp"
#include "cluster/run_on.hpp"
#include "runtime/clock.hpp"

namespace weir::cluster {
namespace {

constexpr std::size_t queue_items_max = 1024;
constexpr std::size_t queue_bytes_max = 256 * 1024;
constexpr std::size_t batch_items_max = 256;
constexpr std::size_t batch_bytes_max = 1024 * 1024;
constexpr std::size_t topics_max = 64;

}  // namespace

Result<Topics> Topics::parse(std::string_view list) {
  Topics topics;
  std::size_t count = 0;
  while (!list.empty()) {
    const auto comma = list.find(',');
    const auto topic = list.substr(0, comma);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    if (++count > topics_max) return Error{Errc::invalid_argument, "more than 64 topics"};
    if (topic == "cluster") {
      topics.cluster_ = true;
    } else if (topic == "jobs") {
      topics.jobs_ = true;
    } else if (topic.starts_with("job:") && topic.size() > 4) {
      topics.job_ids_.emplace_back(topic.substr(4));
    } else if (topic.starts_with("logs:") && topic.size() > 5) {
      topics.log_ids_.emplace_back(topic.substr(5));
    } else {
      return Error{Errc::invalid_argument,
                   "\"" + std::string(topic) + "\" is not a topic; there are cluster, jobs, job:ID and logs:ID"};
    }
  }
  if (count == 0) return Error{Errc::invalid_argument, "no topics; there are cluster, jobs, job:ID and logs:ID"};
  return topics;
}

bool Topics::match(StreamKind kind, std::string_view job_id) const {
  const auto has = [job_id](const std::vector<std::string>& ids) {
    return std::find(ids.begin(), ids.end(), job_id) != ids.end();
  };
  switch (kind) {
    case StreamKind::node:
    case StreamKind::node_removed: return cluster_;
    case StreamKind::event: return job_id.empty() ? cluster_ : has(job_ids_);
    case StreamKind::job: return jobs_ || has(job_ids_);
    case StreamKind::job_removed:
    case StreamKind::job_end: return jobs_ || has(job_ids_) || has(log_ids_);
    case StreamKind::metrics:
    case StreamKind::checkpoint: return has(job_ids_);
    case StreamKind::log: return has(log_ids_);
  }
  return false;
}

/// The part of a subscription that hub and reader share: the hub pushes items, the reader takes them.
class StreamHub::Subscriber {
 public:
  Subscriber(Topics topics, std::uint64_t cursor, std::uint64_t newest)
      : topics_(std::move(topics)), cursor_(cursor), newest_(newest), behind_(cursor != newest) {}

  void push(const std::vector<StreamItem>& items) {
    std::function<void(bool)> wake;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& item : items) push_one(item);
      if (ready()) wake = std::exchange(waiter_, nullptr);
    }
    if (wake) wake(true);
  }

  const Topics& topics() const { return topics_; }

  void close() {
    std::function<void(bool)> wake;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      wake = std::exchange(waiter_, nullptr);
    }
    if (wake) wake(true);
  }

  /// Must be called before a series of wait() calls that time_out() may end.
  void begin() {
    const std::lock_guard lock(mutex_);
    expired_ = false;
  }

  void time_out() {
    std::function<void(bool)> wake;
    {
      const std::lock_guard lock(mutex_);
      expired_ = true;
      wake = std::exchange(waiter_, nullptr);
    }
    if (wake) wake(false);
  }

  /// Calls `done` with true when there is something to take, or with false after time_out(): now, or later from push(),
  /// close() or time_out().
  void wait(std::function<void(bool)> done) {
    bool something = false;
    {
      const std::lock_guard lock(mutex_);
      something = ready();
      if (!something && !expired_) {
        waiter_ = std::move(done);
        return;
      }
    }
    done(something);
  }

  struct State {
    bool closed = false;
    bool behind = false;
    std::uint64_t cursor = 0;
  };
  State state() {
    const std::lock_guard lock(mutex_);
    return {closed_, behind_, cursor_};
  }

  /// Takes what is queued, up to a batch.
  Subscription::Batch take() {
    const std::lock_guard lock(mutex_);
    Subscription::Batch batch;
    while (!queue_.empty() && batch.items.size() < batch_items_max) {
      if (queue_.front().sequence != 0) cursor_ = queue_.front().sequence;
      queued_bytes_ -= queue_.front().data.size();
      batch.items.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    batch.sequence = cursor_;
    return batch;
  }

  /// Makes a batch of items that were read from the store instead of the queue.
  Subscription::Batch catch_up(Store::StreamPage page) {
    const std::lock_guard lock(mutex_);
    Subscription::Batch batch;
    if (cursor_ > page.newest || cursor_ + 1 < page.oldest) {
      batch.reset = true;
      cursor_ = page.newest;
      page.items.clear();
    }
    for (auto& item : page.items) {
      cursor_ = item.sequence;
      if (topics_.match(item.kind, item.job_id)) batch.items.push_back(std::move(item));
    }
    // Items that are missing belonged to deleted jobs.
    if (page.complete) cursor_ = std::max(cursor_, page.newest);
    if (cursor_ >= newest_) behind_ = false;
    batch.sequence = cursor_;
    return batch;
  }

 private:
  bool ready() const { return closed_ || behind_ || !queue_.empty(); }

  void push_one(const StreamItem& item) {
    if (item.sequence != 0) {
      newest_ = item.sequence;
      if (newest_ <= cursor_) return;  // a reader that was behind has read it from the store, where it is earlier
    }
    if (behind_) return;
    if (!topics_.match(item.kind, item.job_id)) {
      if (queue_.empty() && item.sequence != 0) cursor_ = item.sequence;
      return;
    }
    const bool fits =
        queue_.empty() || (queue_.size() < queue_items_max && queued_bytes_ + item.data.size() <= queue_bytes_max);
    if (fits) {
      queue_.push_back(item);
      queued_bytes_ += item.data.size();
    } else if (item.sequence != 0) {  // transient items are simply dropped
      queue_.clear();
      queued_bytes_ = 0;
      behind_ = true;
    }
  }

  const Topics topics_;
  std::mutex mutex_;
  std::deque<StreamItem> queue_;
  std::size_t queued_bytes_ = 0;  ///< of data in `queue_`
  std::uint64_t cursor_;          ///< all items up to here have been taken or did not match
  std::uint64_t newest_;          ///< last sequence number that was pushed
  bool behind_;                   ///< what follows the cursor must be read from the store
  bool closed_ = false;
  bool expired_ = false;
  std::function<void(bool)> waiter_;
};

namespace {

class HubSubscription final : public Subscription {
 public:
  HubSubscription(std::shared_ptr<StreamHub::Subscriber> subscriber, std::shared_ptr<Store> store,
                  runtime::Clock& clock)
      : subscriber_(std::move(subscriber)), store_(std::move(store)), clock_(clock) {}

  net::awaitable<Result<Batch>> next(std::chrono::milliseconds patience) override {
    const auto executor = co_await net::this_coro::executor;
    subscriber_->begin();
    const auto timer =
        clock_.set_timer(executor, clock_.now() + patience, [subscriber = subscriber_] { subscriber->time_out(); });
    for (;;) {
      const auto state = subscriber_->state();
      if (state.closed) co_return Error{Errc::cancelled, "the head stops"};
      if (state.behind) {
        auto page = co_await store_->stream(state.cursor, batch_items_max, batch_bytes_max);
        if (!page) co_return page.error();
        Batch batch = subscriber_->catch_up(std::move(*page));
        if (batch.reset || !batch.items.empty()) co_return batch;
        continue;
      }
      Batch batch = subscriber_->take();
      if (!batch.items.empty()) co_return batch;
      auto wait = [subscriber = subscriber_](std::function<void(bool)> done) { subscriber->wait(std::move(done)); };
      const bool woken = co_await await_completion<bool>(std::move(wait));
      if (!woken) co_return subscriber_->take();  // it may have passed what others asked for meanwhile
    }
  }

  std::uint64_t place() override { return subscriber_->state().cursor; }

  void close() override { subscriber_->close(); }

 private:
  std::shared_ptr<StreamHub::Subscriber> subscriber_;
  std::shared_ptr<Store> store_;
  runtime::Clock& clock_;
};

}  // namespace

StreamHub::StreamHub(std::shared_ptr<Store> store, runtime::Clock& clock, std::uint64_t newest)
    : store_(std::move(store)), clock_(clock), newest_(newest) {}

StreamHub::~StreamHub() { close(); }

void StreamHub::publish(const std::vector<StreamItem>& items) {
  const std::lock_guard lock(mutex_);
  if (!items.empty() && items.back().sequence != 0) newest_ = items.back().sequence;
  std::erase_if(subscribers_, [&items](const std::weak_ptr<Subscriber>& weak) {
    const auto subscriber = weak.lock();
    if (subscriber) subscriber->push(items);
    return subscriber == nullptr;
  });
}

StreamHub::Watched StreamHub::watched_jobs() {
  const std::lock_guard lock(mutex_);
  Watched watched;
  for (const auto& weak : subscribers_) {
    const auto subscriber = weak.lock();
    if (subscriber == nullptr) continue;
    const Topics& topics = subscriber->topics();
    watched.all = watched.all || topics.jobs();
    watched.ids.insert(topics.job_ids().begin(), topics.job_ids().end());
  }
  return watched;
}

bool StreamHub::followed(StreamKind kind, std::string_view job_id) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(subscribers_, [&](const auto& weak) {
    const auto subscriber = weak.lock();
    return subscriber != nullptr && subscriber->topics().match(kind, job_id);
  });
}

std::unique_ptr<Subscription> StreamHub::subscribe(Topics topics, std::optional<std::uint64_t> after) {
  const std::lock_guard lock(mutex_);
  auto subscriber = std::make_shared<Subscriber>(std::move(topics), after.value_or(newest_), newest_);
  if (closed_) subscriber->close();
  std::erase_if(subscribers_, [](const auto& weak) { return weak.expired(); });  // nothing may be published for long
  subscribers_.push_back(subscriber);
  return std::make_unique<HubSubscription>(std::move(subscriber), store_, clock_);
}

void StreamHub::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& weak : subscribers_) {
    if (const auto subscriber = weak.lock()) subscriber->close();
  }
  subscribers_.clear();
}

}  // namespace weir::cluster
