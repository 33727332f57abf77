#include "training/servers/messenger.hpp"

#include <string>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"

namespace weir::training::servers {

using collectives::Subject;
using collectives::Task;

/// Takes a message as it arrives, which may be while it is made.
class Messenger::Inbox final : public collectives::Receiver {
 public:
  explicit Inbox(Messenger& owner) : messenger(owner), arrival(owner.group_, *this) {}

  Result<void> begin(std::uint64_t message_bytes) override {
    if (auto room = messenger.make_room(arrival.from(), message_bytes); !room) return room;
    body.resize(message_bytes, boost::container::default_init);
    return {};
  }
  std::span<std::byte> place(std::uint64_t offset, std::size_t bytes) override {
    return std::span(body).subspan(offset, bytes);
  }

  Messenger& messenger;
  Bytes body;
  collectives::Receive arrival;  ///< last: it uses the others from the beginning
};

/// A message that the thread has sent. It begins as a request, which hands it over to the loop.
class Messenger::Sending final : public collectives::Loop::Request {
 public:
  Sending(Messenger& messenger, std::uint32_t rank, const Subject& subject, Bytes bytes)
      : to(rank), about(subject), body(std::move(bytes)), messenger_(messenger) {}

  void run() override {
    auto& all = messenger_.sending_;
    std::erase_if(all, [](const auto& sending) { return sending->task->done(); });
    all.emplace_back(this);
    task.emplace(messenger_.send_out(*this));
    task->start();
  }

  const std::uint32_t to;
  const Subject about;
  const Bytes body;
  std::optional<Task<>> task;

 private:
  Messenger& messenger_;
};

Messenger::Messenger(collectives::Fabric& fabric, Limits limits)
    : fabric_(fabric), group_(fabric.lane(fabric.lanes() - 1)), limits_(limits), waiting_of_(fabric.size(), 0) {
  ensure(fabric.lanes() > 1, "a lane without operations");
  fabric_.thread().call([this] {
    // As many as there are others: a long message of one does not keep back those of the rest.
    for (std::uint32_t i = 0; i + 1 < group_.size(); ++i) receiving_.push_back(receive());
    for (auto& task : receiving_) task.start();
  });
}

Messenger::~Messenger() {
  fabric_.thread().call([this] {
    sending_.clear();
    receiving_.clear();
  });
}

void Messenger::send(std::uint32_t to, const Subject& about, Bytes body) {
  {
    const std::lock_guard lock(mutex_);
    ++unsent_;
  }
  fabric_.thread().loop().post(*std::make_unique<Sending>(*this, to, about, std::move(body)).release());
}

Result<Messenger::Message> Messenger::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failure_ || !waiting_.empty(); });
  if (failure_) return *failure_;
  Message message = std::move(waiting_.front());
  waiting_.pop_front();
  --waiting_of_[message.from];
  return message;
}

Result<void> Messenger::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failure_ || unsent_ == 0; });
  return failure_ ? Result<void>(*failure_) : Result<void>();
}

Task<> Messenger::receive() {
  while (true) {
    Inbox inbox(*this);
    if (auto received = co_await inbox.arrival; !received) {
      fail(received.error());
      co_return received;
    }
    const std::lock_guard lock(mutex_);
    waiting_.push_back({inbox.arrival.from(), inbox.arrival.about(), std::move(inbox.body)});
    changed_.notify_all();
  }
}

Task<> Messenger::send_out(Sending& sending) {
  collectives::Send out(group_, sending.to, sending.about, sending.body);
  auto sent = co_await out;
  if (!sent) fail(sent.error());
  const std::lock_guard lock(mutex_);
  --unsent_;
  changed_.notify_all();
  co_return sent;
}

std::size_t Messenger::waiting_max(std::uint32_t from) const {
  return unanswered_max + (from == limits_.announcer ? limits_.announcements_max : 0);
}

Result<void> Messenger::make_room(std::uint32_t from, std::uint64_t bytes) {
  if (bytes > limits_.bytes_max) {
    return Error{Errc::malformed, "a message of " + std::to_string(bytes) + " bytes where at most " +
                                      std::to_string(limits_.bytes_max) + " can be"};
  }
  const std::lock_guard lock(mutex_);
  if (waiting_of_[from] == waiting_max(from)) {
    return Error{Errc::malformed, "more than " + std::to_string(waiting_max(from)) + " messages without an answer"};
  }
  ++waiting_of_[from];
  return {};
}

void Messenger::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
  changed_.notify_all();
}

}  // namespace weir::training::servers
