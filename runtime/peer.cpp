#include "runtime/peer.hpp"

#include <spdlog/spdlog.h>

#include "runtime/serialize.hpp"
#include "runtime/system_core.hpp"

namespace weir::runtime {
namespace {

/// A message being written. The thread's next message reuses its memory; references to segments are dropped at the end.
class Scratch {
 public:
  Scratch() : memory_(memory()) { memory_.body.clear(); }
  ~Scratch() { memory_.segments.clear(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  Writer writer() { return {memory_.body, memory_.segments}; }

  /// Fails with: invalid_argument (over the limits, for which the receiver would close the link), and the errors of
  /// Link::send.
  Result<void> send(Link& link, FrameKind kind) const {
    const FrameLimits limits;
    std::uint64_t segment_bytes = 0;
    for (const Segment& segment : memory_.segments) segment_bytes += segment.size();
    if (memory_.body.size() > limits.body_bytes_max || memory_.segments.size() > limits.segments_max ||
        segment_bytes > limits.segments_bytes_max) {
      return Error{Errc::invalid_argument, "a message of " + std::to_string(memory_.body.size() + segment_bytes) +
                                               " bytes in " + std::to_string(memory_.segments.size()) +
                                               " segments and a body is too large"};
    }
    return link.send(kind, memory_.body, memory_.segments);
  }

 private:
  struct Memory {
    Bytes body;
    std::vector<Segment> segments;
  };
  static Memory& memory() {
    static thread_local Memory memory;
    return memory;
  }
  Memory& memory_;
};

}  // namespace

Peer::Peer(std::shared_ptr<SystemCore> core, std::shared_ptr<Link> link, Handshake::Role role)
    : core_(std::move(core)),
      router_(core_),
      link_(std::move(link)),
      handshake_(role, [core = core_](std::string_view account) { return core->secret_of(account); },
                 {core_->process(), core_->options().name, core_->options().account}),
      calls_(std::make_shared<CallTable>(core_->options().clock, link_->executor())) {}

void Peer::start() {
  link_->set_limits(FrameLimits::unauthenticated());
  watch(core_->options().handshake_limit, &Peer::check_handshake);
  const auto hello = handshake_.open();
  link_->start(shared_from_this());  // from here on the handshake belongs to the link's strand
  if (hello) send(*hello);
}

void Peer::on_frame(const FrameView& frame) {
  // A link closes some time after it is told to: frames that it has read by then must have no effect.
  if (closing_.load(std::memory_order_relaxed)) return;
  if (!open_.load(std::memory_order_relaxed)) return on_handshake_frame(frame);
  switch (frame.kind) {
    case FrameKind::call:
    case FrameKind::tell: return on_message(frame);
    case FrameKind::reply: return on_reply(frame);
    case FrameKind::ping: (void)link_->send(FrameKind::pong, {}, {}); return;
    case FrameKind::pong: return;
    case FrameKind::hello:
    case FrameKind::proof:
    case FrameKind::refuse: return close({Errc::malformed, "a handshake frame after the handshake"});
  }
}

void Peer::on_handshake_frame(const FrameView& frame) {
  auto reply = handshake_.receive(frame);
  if (!reply) {
    if (frame.kind != FrameKind::refuse) send(Handshake::refuse(reply.error()));
    return refuse(reply.error());
  }
  if (reply->has_value()) send(**reply);  // before anybody can find this peer and send it something else
  if (!handshake_.done()) return;
  if (const auto accepted = core_->joined(shared_from_this()); !accepted) return refuse(accepted.error());
  outcome_ = PeerId{handshake_.peer().process};
  caller_ = std::make_shared<const Caller>(Caller{handshake_.peer().process, handshake_.account()});
  link_->set_limits({});
  open_ = true;
  watch(core_->options().ping_interval, &Peer::check_alive);
  ready_.set();
}

void Peer::refuse(const Error& why) {
  // This remains the reason, even if the other side closes the link before our close() takes effect.
  outcome_ = why;
  refused_ = true;
  close(why);
}

Result<CallKey> Peer::call(std::uint64_t actor, const MethodKey& method, Clock::duration limit, const Message& message,
                           std::unique_ptr<PendingReply>& waiting) {
  auto call = calls_->add(limit, waiting);
  if (!call) return call.error();
  Scratch scratch;
  Writer out = scratch.writer();
  out.number(*call);
  out.number(actor);
  out.number(method.method);
  message.write(out);
  if (auto sent = scratch.send(*link_, FrameKind::call); !sent) {
    waiting = calls_->take(*call);
    if (waiting) return sent.error();  // otherwise the caller has already been told that the link ended
  }
  return CallKey{calls_, *call};
}

Result<void> Peer::tell(std::uint64_t actor, const MethodKey& method, const Message& message) {
  Scratch scratch;
  Writer out = scratch.writer();
  out.number(actor);
  out.number(method.method);
  message.write(out);
  return scratch.send(*link_, FrameKind::tell);
}

void Peer::on_message(const FrameView& frame) {
  Reader in(frame.body, frame.segments, &router_);
  Reply reply;
  std::uint64_t actor = 0;
  std::uint64_t method = 0;
  const bool wants_answer = frame.kind == FrameKind::call;
  if ((wants_answer && !in.number(reply.call)) || !in.number(actor) || !in.number(method)) {
    return close({Errc::malformed, "a message without its addresses"});
  }
  if (wants_answer) reply.port = shared_from_this();
  auto cell = core_->find_actor(actor);
  if (!cell) return refuse_call(reply, {Errc::not_found, "no such actor"});
  const auto found = cell->find_method(method);
  if (found.method == nullptr) return refuse_call(reply, {Errc::not_found, "the actor has no such method"});
  auto turn = found.method->parse(found.object, in, reply);
  if (!turn) return refuse_call(reply, turn.error().within("arguments"));
  (*turn)->caller = caller_;
  if (auto accepted = cell->accept(*turn); !accepted) refuse_call(reply, accepted.error());
}

void Peer::refuse_call(const Reply& reply, const Error& why) {
  if (!reply.port) {
    spdlog::warn("a message from {} is dropped: {}", link_->remote(), why.message());
    return;
  }
  Result<void> refused = why;
  detail::ResultAnswer<void> answer_with(refused);  // an error is encoded the same way for every type of value
  answer(reply.call, answer_with);
}

void Peer::answer(std::uint64_t call, Answer& answer) {
  const auto sent = send_answer(call, answer);
  if (sent || (sent.error().code != Errc::exhausted && sent.error().code != Errc::invalid_argument)) return;
  Result<void> instead = sent.error();
  detail::ResultAnswer<void> refusal(instead);
  if (!send_answer(call, refusal)) close({Errc::exhausted, "the peer asks but does not read the answers"});
}

Result<void> Peer::send_answer(std::uint64_t call, const Answer& answer) {
  Scratch scratch;
  Writer out = scratch.writer();
  out.number(call);
  answer.write(out);
  return scratch.send(*link_, FrameKind::reply);
}

void Peer::on_reply(const FrameView& frame) {
  Reader in(frame.body, frame.segments, &router_);
  std::uint64_t call = 0;
  if (!in.number(call)) return close({Errc::malformed, "an answer without its call's number"});
  if (auto waiting = calls_->take(call)) waiting->accept(in);  // null: the answer came after the deadline
}

void Peer::send(const Handshake::Reply& reply) { (void)link_->send(reply.kind, reply.body, {}); }

void Peer::close(const Error& why) {
  closing_.store(true, std::memory_order_relaxed);
  link_->close(why);
}

void Peer::give_up(const Error& why) {
  calls_->close(why);
  close(why);
}

void Peer::on_closed(const Error& reason) {
  watchdog_.reset();
  const bool was_open = open_.exchange(false);
  if (!was_open) {
    if (!refused_) outcome_ = reason;
    spdlog::warn("{}: link with {} ended in its handshake: {}", core_->options().name, link_->remote(),
                 outcome_.error().message());
  }
  // Callers get peer_lost or cancelled, whatever broke the link; the text keeps the reason.
  const bool deliberate = reason.code == Errc::peer_lost || reason.code == Errc::cancelled;
  calls_->close(deliberate ? reason : Error{Errc::peer_lost, reason.message()});
  core_->ended(shared_from_this(), reason);
  ready_.set();
}

void Peer::watch(Clock::duration time, void (Peer::*check)()) {
  Clock& clock = core_->options().clock;
  watchdog_ = clock.set_timer(link_->executor(), clock.now() + time, [weak = weak_from_this(), check] {
    if (auto self = weak.lock()) (self.get()->*check)();
  });
}

void Peer::check_handshake() {
  if (!open_) close({Errc::deadline_exceeded, "no handshake in time"});
}

/// Counts checks, not seconds: a process that was itself stopped could not receive, and counts that time as one check.
void Peer::check_alive() {
  const auto& options = core_->options();
  const std::uint64_t received = link_->bytes_received();
  const std::uint64_t acknowledged = link_->bytes_acknowledged();
  // A large message may be on its way for minutes. The ping waits behind it, so no answer can have come: as long as the
  // bytes before the ping are being acknowledged, the peer is alive. Once the ping itself has arrived, only bytes from
  // the peer are a sign of life.
  const bool under_way = acknowledged != acknowledged_ && acknowledged < ping_end_;
  silent_checks_ = received != received_ || under_way ? 0 : silent_checks_ + 1;
  received_ = received;
  acknowledged_ = acknowledged;
  if (silent_checks_ * options.ping_interval >= options.silence_limit) {
    return close({Errc::peer_lost, "silent for " + std::to_string(options.silence_limit.count()) + " ms"});
  }
  if (silent_checks_ > 0 && acknowledged >= ping_end_) {
    if (link_->send(FrameKind::ping, {}, {})) ping_end_ = link_->bytes_accepted();
  }
  watch(options.ping_interval, &Peer::check_alive);
}

PeerInfo Peer::info() const {
  return {{handshake_.peer().process}, handshake_.peer().name, handshake_.account(), link_->remote(),
          link_->bytes_sent(),         link_->bytes_received()};
}

}  // namespace weir::runtime
