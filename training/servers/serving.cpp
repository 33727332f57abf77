#include "training/servers/serving.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "training/servers/parts.hpp"

namespace weir::training::servers {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t message_bytes_max(const Server& server) {
  std::uint64_t bytes = 4096 + 8 * server.place.workers + buffer_bytes(*server.model);
  for (const auto& parameter : server.model->parameters()) {
    bytes += TensorCoder::bytes_max(static_cast<std::uint64_t>(parameter.tensor.numel()));
  }
  return bytes;
}

/// The first server tells the others of each worker that is late, which is not before they have answered it: once for
/// each worker, beside what it awaits an answer to.
Messenger::Limits limits_of(const Server& server) {
  return {.bytes_max = message_bytes_max(server),
          .announcer = server.place.workers,
          .announcements_max = server.place.workers};
}

Error out_of_turn(const std::string& what) { return {Errc::malformed, what}; }

std::uint64_t multiples(std::uint64_t step, std::uint64_t every) { return every == 0 ? 0 : step / every; }

}  // namespace

Serving::Serving(Server& server, collectives::Fabric& fabric, Progress& progress)
    : server_(server),
      progress_(progress),
      messenger_(fabric, limits_of(server)),
      rule_(server.mode->rule(
          {.clocks = server.counts.clocks, .version = server.counts.version, .first = server.place.first()})),
      clients_(server.place.workers),
      buffers_(server.place.workers),
      evaluations_(multiples(server.step(), server.spec.evaluate_every_steps)),
      saves_(multiples(server.step(), server.spec.checkpoint_every_steps)),
      kept_step_(server.step()),
      recorded_step_(server.step()) {}

Result<bool> Serving::run() {
  const at::NoGradGuard no_grad;
  for (Client& client : clients_) client.halted = true;
  if (first()) {
    stopping_ = progress_.stop_wanted();
    if (auto begun = rest(); !begun) return begun.error();
  }
  while (!ended_) {
    const auto start = Clock::now();
    auto message = messenger_.next();
    record_.wait_seconds += std::chrono::duration<double>(Clock::now() - start).count();
    if (!message) return message.error();
    if (auto taken = take(std::move(*message)); !taken) return taken.error();
  }
  if (auto sent = messenger_.flush(); !sent) return sent.error();
  return finished_;
}

Result<void> Serving::take(Messenger::Message message) {
  const std::string rank = "rank " + std::to_string(message.from);
  const auto kind = kind_of(message.about);
  if (!kind) return kind.error().within(rank);
  const std::string what = std::string(name_of(*kind)) + " of " + rank;
  const bool of_worker = message.from < clients_.size();
  Result<void> taken = out_of_turn("not from this rank, or not to this one");
  if (*kind == Kind::push && of_worker) {
    taken = take_push(std::move(message));
  } else if (*kind == Kind::halted && of_worker) {
    taken = take_halted(message);
  } else if (!first() && message.from == clients_.size()) {
    taken = take_order(*kind, message);
  } else if (first() && !of_worker) {
    taken = take_word(*kind, message);
  }
  return taken ? taken : Result<void>(taken.error().within(what));
}

Result<void> Serving::take_push(Messenger::Message message) {
  const std::uint32_t worker = message.from;
  Client& client = clients_[worker];
  if (client.halted) return out_of_turn("it has halted and may not go on yet");
  if (client.held) return out_of_turn("the one before it is not answered");
  const auto push = Reader(message.body).push();
  if (!push) return push.error();
  std::uint64_t& clock = server_.counts.clocks[worker];
  if (push->clock != clock + 1) {
    return out_of_turn("it is number " + std::to_string(push->clock) + " where " + std::to_string(clock + 1) +
                       " is due");
  }
  if (push->step > server_.length.steps_total || (first() && push->version > server_.counts.version)) {
    return out_of_turn("it is about version " + std::to_string(push->version) + " and step " +
                       std::to_string(push->step) + ", which there is not");
  }
  ++clock;
  count_answer(client);
  server_.traffic->push_received(message.body.size());
  client.push = *push;
  client.held = std::move(message);
  if (first() && push->buffers > 0) {
    const BytesView body = client.held->body;
    if (push->buffers > body.size()) return out_of_turn("its buffers are longer than it is");
    if (auto kept = buffers_.take(worker, body.last(push->buffers), *server_.model); !kept) return kept;
  }
  const auto decisions = rule_->arrived(worker, push->version, server_.counts.version);
  if (!decisions) return decisions.error();
  auto done = carry_out(*decisions);
  return done && halting_ ? carry_out(rule_->halt()) : done;
}

Result<void> Serving::take_halted(const Messenger::Message& message) {
  Client& client = clients_[message.from];
  if (client.halted || client.held) return out_of_turn("it has halted before, or its push is not answered");
  client.halted = true;
  count_answer(client);
  if (first()) {
    if (!halting_) return out_of_turn("nobody has asked for it");
    if (auto kept = buffers_.take(message.from, message.body, *server_.model); !kept) return kept;
    return all_halted() ? rest() : Result<void>();
  }
  return told_to_rest_ && all_halted() ? rest_as_told() : Result<void>();
}

/// What the first server tells the others.
Result<void> Serving::take_order(Kind kind, const Messenger::Message& message) {
  Reader body(message.body);
  if (kind == Kind::decided || kind == Kind::late) {
    const auto version = body.number();
    std::vector<std::uint32_t> members;
    while (body.left() > 0) {
      const auto member = body.number();
      if (!member) return member.error();
      const bool ascends = members.empty() || *member > members.back();
      if (*member >= clients_.size() || !ascends) return out_of_turn("they are no workers, or not in their order");
      members.push_back(static_cast<std::uint32_t>(*member));
    }
    if (!version) return version.error();
    if (kind == Kind::late && members.size() != 1) return out_of_turn("it names no worker, or several");
    const auto decisions =
        kind == Kind::late ? rule_->late(*version, members.front()) : rule_->decided(*version, members);
    return decisions ? carry_out(*decisions) : Result<void>(decisions.error());
  }
  if (kind == Kind::halt) {
    halting_ = true;
    return carry_out(rule_->halt());
  }
  if (kind == Kind::wants_part) {
    messenger_.send(message.from, subject(Kind::part, 0), part_of(server_.shard->tensors()));
    return {};
  }
  if (kind != Kind::rest) return out_of_turn("not to a server");
  const auto rest = body.rest();
  if (!rest) return rest.error();
  told_to_rest_ = *rest;
  return all_halted() ? rest_as_told() : Result<void>();
}

Result<void> Serving::rest_as_told() {
  const Rest rest = *std::exchange(told_to_rest_, std::nullopt);
  if (rest.applied != server_.counts.applied || rest.step != server_.step()) {
    return out_of_turn("it has applied " + std::to_string(rest.applied) + " pushes, this server " +
                       std::to_string(server_.counts.applied));
  }
  if ((rest.flags & Rest::save) != 0) {
    if (auto saved = save(); !saved) return saved;
  }
  messenger_.send(server_.place.workers, subject(Kind::rested, 0),
                  (rest.flags & Rest::part) != 0 ? part_of(server_.shard->tensors()) : Bytes());
  halting_ = false;
  ended_ = (rest.flags & Rest::end) != 0;
  finished_ = (rest.flags & Rest::stopped) == 0;
  for (Client& client : clients_) client.halted = false;
  (void)rule_->go_on();  // the first server says it to the workers
  return {};
}

/// What the other servers tell the first one.
Result<void> Serving::take_word(Kind kind, const Messenger::Message& message) {
  const std::uint32_t index = message.from - server_.place.workers;
  Reader body(message.body);
  if (kind == Kind::part) {
    if (parts_awaited_.empty() || !parts_awaited_[index]) return out_of_turn("nobody has asked for it");
    parts_awaited_[index] = false;
    if (auto taken = take_part(body, *server_.model, server_.parts[index]); !taken) return taken;
    if (std::ranges::count(parts_awaited_, true) > 0) return {};
    parts_awaited_.clear();
    if (auto given = give_model(); !given) return given;
    return begin_evaluation();
  }
  if (kind != Kind::rested || !resting_ || !awaited_[index]) return out_of_turn("nobody has asked for it");
  awaited_[index] = false;
  if ((resting_->flags & Rest::part) != 0) {
    if (auto taken = take_part(body, *server_.model, server_.parts[index]); !taken) return taken;
  }
  if (auto end = body.end(); !end) return end;
  return std::ranges::count(awaited_, true) == 0 ? end_rest() : Result<void>();
}

Result<void> Serving::carry_out(const std::vector<Decision>& decisions) {
  const bool halted_before = halting_;
  for (const Decision& decision : decisions) {
    if (decision.tells && first()) tell(decision);
    if (auto applied = apply(decision.applied); !applied) return applied;
    record_.dropped += decision.dropped.size();
    for (const auto worker : decision.answered) {
      if (clients_[worker].held) {
        const bool dropped = std::ranges::count(decision.dropped, worker) > 0;
        if (auto answered = answer(worker, dropped); !answered) return answered;
      } else if (first()) {
        send_leave(worker, halting_ ? Rest::halt : 0);
      }
    }
  }
  return halting_ && !halted_before ? begin_halt() : Result<void>();
}

Result<void> Serving::apply(const std::vector<std::uint32_t>& workers) {
  if (workers.empty()) return {};
  std::vector<Shard::Pushed> pushes;
  for (const auto worker : workers) {
    Client& client = clients_[worker];
    Reader body(client.held->body);
    if (auto header = body.push(); !header) return header.error();
    pushes.push_back({.turn = turn_of(worker, false), .tensors = body});
  }
  const double share = static_cast<double>(workers.size()) / server_.pushes_per_step;
  auto applied = server_.shard->apply(pushes, share * server_.rate_at(server_.step()), *rule_);
  if (!applied) return applied;
  const auto& own = server_.shard->indices();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    for (std::size_t t = 0; t < own.size(); ++t) server_.traffic->tensor_received(own[t], pushes[i].bytes[t]);
    const std::uint64_t buffers = first() ? clients_[workers[i]].push.buffers : 0;
    if (pushes[i].tensors.left() != buffers) {
      return Error{Errc::malformed, "the push of rank " + std::to_string(workers[i]) + " has other tensors: " +
                                        std::to_string(pushes[i].tensors.left()) + " bytes are left of it"};
    }
  }
  auto noted = record(workers);
  return noted && first() ? look_for_what_is_due() : noted;
}

/// Counts what has been applied.
Result<void> Serving::record(const std::vector<std::uint32_t>& workers) {
  auto& counts = server_.counts;
  for (const auto worker : workers) {
    const std::uint64_t staleness = counts.version - counts.answered_at[worker];
    record_.staleness += static_cast<double>(staleness);
    record_.staleness_max = std::max(record_.staleness_max, staleness);
    clients_[worker].held->body = Bytes();
  }
  pushes_ += workers.size();
  counts.applied += workers.size();
  ++counts.version;
  if (server_.step() == recorded_step_) return {};
  recorded_step_ = record_.step = server_.step();
  record_.applied = std::exchange(pushes_, 0);
  record_.staleness /= static_cast<double>(record_.applied);
  return progress_.served(std::exchange(record_, {}));
}

Result<void> Serving::answer(std::uint32_t worker, bool dropped) {
  Client& client = clients_[worker];
  Bytes body;
  write(body, Answer{.clock = client.push.clock,
                     .version = server_.counts.version,
                     .step = std::min(server_.step(), server_.length.steps_total),
                     .flags = (halting_ ? Answer::halt : 0) | (dropped ? Answer::dropped : 0)});
  auto written = server_.shard->answer(turn_of(worker, true), body);
  if (!written) return written.error().within("the answer to rank " + std::to_string(worker));
  client.answered = Answered{.body_bytes = body.size(), .tensor_bytes = std::move(*written)};
  messenger_.send(worker, subject(Kind::answer, server_.counts.version), std::move(body));
  server_.counts.answered_at[worker] = server_.counts.version;
  client.held.reset();
  return {};
}

/// The worker has sent something since it was answered.
void Serving::count_answer(Client& client) {
  const auto answered = std::exchange(client.answered, std::nullopt);
  if (!answered) return;
  const auto& own = server_.shard->indices();
  for (std::size_t t = 0; t < own.size(); ++t) server_.traffic->tensor_sent(own[t], answered->tensor_bytes[t]);
  server_.traffic->answer_sent(answered->body_bytes);
}

void Serving::tell(const Decision& decision) {
  if (!decision.applied.empty()) tell(Kind::decided, decision.applied);
  for (const auto worker : decision.dropped) tell(Kind::late, std::span(&worker, 1));
}

void Serving::tell(Kind kind, std::span<const std::uint32_t> workers) {
  Bytes body;
  write(body, server_.counts.version);
  for (const auto worker : workers) write(body, std::uint64_t{worker});
  for (std::uint32_t index = 1; index < server_.place.servers; ++index) {
    messenger_.send(server_.place.workers + index, subject(kind, server_.counts.version), body);
  }
}

Result<void> Serving::look_for_what_is_due() {
  const std::uint64_t step = server_.step();
  // A state is known by its step: at that of the last one, what was pushed since would be in none. If every worker
  // pushes there is another step, but ssp keeps some back that a checkpoint of more staleness has far ahead.
  stopping_ = stopping_ || (step > kept_step_ && progress_.stop_wanted());
  const bool ends = stopping_ || step >= server_.length.steps_total;
  const auto saves = multiples(step, server_.spec.checkpoint_every_steps);
  save_due_ = save_due_ || saves > saves_;
  saves_ = saves;
  halting_ = halting_ || ends || save_due_;
  const auto evaluations = multiples(step, server_.spec.evaluate_every_steps);
  evaluation_due_ = evaluation_due_ || evaluations > evaluations_;
  evaluations_ = evaluations;
  return begin_evaluation();
}

/// If one is due. While parts of the last one are awaited it stays due; at the end there is one anyway.
Result<void> Serving::begin_evaluation() {
  const bool ends = stopping_ || server_.step() >= server_.length.steps_total;
  if (!evaluation_due_ || ends || !parts_awaited_.empty()) return {};
  evaluation_due_ = false;
  if (server_.place.servers == 1) return give_model();
  parts_awaited_.assign(server_.place.servers, true);
  parts_awaited_[0] = false;
  for (std::uint32_t index = 1; index < server_.place.servers; ++index) {
    messenger_.send(server_.place.workers + index, subject(Kind::wants_part, 0), Bytes());
  }
  return {};
}

Result<void> Serving::begin_halt() {
  for (std::uint32_t index = 1; index < server_.place.servers; ++index) {
    messenger_.send(server_.place.workers + index, subject(Kind::halt, 0), Bytes());
  }
  return carry_out(rule_->halt());
}

/// Nothing is on its way: has the other servers save their parts. Also the beginning of a training.
Result<void> Serving::rest() {
  const std::uint64_t step = server_.step();
  const bool done = step >= server_.length.steps_total;
  const bool ends = done || stopping_;
  Rest rest{.version = server_.counts.version, .step = step, .applied = server_.counts.applied, .flags = 0};
  if (ends) rest.flags |= Rest::end | Rest::save | Rest::part;
  if (!done && stopping_) rest.flags |= Rest::stopped;
  if (save_due_) rest.flags |= Rest::save;
  resting_ = rest;
  awaited_.assign(server_.place.servers, true);
  awaited_[0] = false;
  Bytes body;
  write(body, rest);
  for (std::uint32_t index = 1; index < server_.place.servers; ++index) {
    messenger_.send(server_.place.workers + index, subject(Kind::rest, 0), body);
  }
  return server_.place.servers == 1 ? end_rest() : Result<void>();
}

/// All servers have what they need: lets the workers go on, or end.
Result<void> Serving::end_rest() {
  const std::uint64_t flags = resting_ ? resting_->flags : 0;
  resting_.reset();
  buffers_.put_into(*server_.model);
  if ((flags & Rest::save) != 0) {
    if (auto saved = save(); !saved) return saved;
  }
  if ((flags & Rest::part) != 0) {
    if (auto given = give_model(); !given) return given;
  }
  if ((flags & Rest::end) != 0) {
    for (std::uint32_t worker = 0; worker < clients_.size(); ++worker) send_leave(worker, flags);
    ended_ = true;
    finished_ = (flags & Rest::stopped) == 0;
    return {};
  }
  halting_ = save_due_ = false;
  const auto going = rule_->go_on();
  for (std::uint32_t worker = 0; worker < clients_.size(); ++worker) {
    const bool stays = std::ranges::count(going, worker) == 0;
    if (!stays) {
      send_leave(worker, flags);
    } else if (flags != 0) {
      send_leave(worker, flags | Rest::stay);
    }
  }
  return {};
}

void Serving::send_leave(std::uint32_t worker, std::uint64_t flags) {
  Bytes body;
  write(body, Rest{.version = server_.counts.version,
                   .step = std::min(server_.step(), server_.length.steps_total),
                   .applied = server_.counts.applied,
                   .flags = flags & ~Rest::part});
  messenger_.send(worker, subject(Kind::go_on, 0), std::move(body));
  clients_[worker].halted = (flags & Rest::stay) != 0;
}

Result<void> Serving::save() {
  auto share = server_.save();
  kept_step_ = server_.step();
  return share ? progress_.keep(server_.step(), std::move(*share)) : Result<void>(share.error());
}

Result<void> Serving::give_model() {
  buffers_.put_into(*server_.model);
  auto model = server_.save_model();
  return model ? progress_.evaluate(server_.step(), std::move(*model)) : Result<void>(model.error());
}

bool Serving::all_halted() const { return std::ranges::all_of(clients_, &Client::halted); }

Turn Serving::turn_of(std::uint32_t worker, bool answers) const {
  const Push& push = clients_[worker].push;
  return {.worker = worker,
          .clock = push.clock,
          .step = push.step,
          .learning_rate = server_.rate_at(push.step),
          .answers = answers};
}

}  // namespace weir::training::servers
