#include "training/servers/client.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "training/exchange/stopwatch.hpp"
#include "training/servers/buffers.hpp"
#include "training/servers/division.hpp"

namespace weir::training::servers {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t message_bytes_max(const Model& model) {
  std::uint64_t bytes = 4096;
  for (const auto& parameter : model.parameters()) {
    bytes += TensorCoder::bytes_max(static_cast<std::uint64_t>(parameter.tensor.numel()));
  }
  return bytes;
}

}  // namespace

Client::Client(Model& model, const compressors::Compression& compression, collectives::Fabric& fabric,
               const Setting& setting, std::uint64_t clock)
    : model_(model),
      parameters_(model.parameters()),
      parts_(divide(parameters_, setting.servers)),
      fabric_(fabric),
      rank_(fabric.rank()),
      first_server_(setting.coding.workers),
      sends_buffers_(setting.evaluates),
      coder_(compression, setting.coding),
      traffic_(parameters_),
      messenger_(fabric, {.bytes_max = message_bytes_max(model)}),
      clock_(clock),
      awaited_(setting.servers, false) {
  const auto on_device = std::ranges::find_if(parameters_, [](const NamedTensor& it) { return !it.tensor.is_cpu(); });
  if (on_device != parameters_.end()) beside_.emplace(stream_for_coding(on_device->tensor.device()));
}

Result<Client::Times> Client::push(std::span<const at::Tensor> gradients, double learning_rate) {
  const at::NoGradGuard no_grad;
  const InSideStream beside(beside_ ? &*beside_ : nullptr);
  Times times;
  ++clock_;
  pushed_step_ = step_;
  auto start = Clock::now();
  for (std::uint32_t server = 0; server < parts_.size(); ++server) {
    Bytes body;
    const std::uint64_t buffers = server == 0 && sends_buffers_ ? buffer_bytes(model_) : 0;
    write(body, Push{.clock = clock_, .version = version_, .step = step_, .buffers = buffers});
    const auto written = write_gradients(server, gradients, learning_rate, body);
    if (!written) return written.error();
    for (std::size_t i = 0; i < written->size(); ++i) traffic_.tensor_sent(parts_[server][i], (*written)[i]);
    if (buffers > 0) append_buffers(model_, body);
    traffic_.push_sent(body.size());
    messenger_.send(first_server_ + server, subject(Kind::push, clock_), std::move(body));
    awaited_[server] = true;
  }
  times.encode = seconds_since(start);
  while (std::ranges::count(awaited_, true) > 0) {
    start = Clock::now();
    const auto message = messenger_.next();
    if (!message) return message.error();
    times.wait += seconds_since(start);
    start = Clock::now();
    if (auto taken = take_answer(*message, learning_rate); !taken) {
      return from(taken.error(), message->from, Kind::answer);
    }
    times.decode += seconds_since(start);
  }
  return times;
}

Result<std::vector<std::size_t>> Client::write_gradients(std::uint32_t server, std::span<const at::Tensor> gradients,
                                                         double learning_rate, Bytes& body) {
  std::vector<Gradient> pushed;
  for (const auto i : parts_[server]) {
    const auto& [name, tensor] = parameters_[i];
    const auto zeros = at::TensorOptions(at::kFloat).device(tensor.device());
    pushed.push_back({i, name, gradients[i].defined() ? gradients[i].contiguous() : at::zeros(tensor.sizes(), zeros)});
  }
  return coder_.write_gradients(pushed, turn(learning_rate, false), body);
}

Result<void> Client::take_answer(const Messenger::Message& message, double learning_rate) {
  const auto kind = kind_of(message.about);
  if (!kind) return kind.error();
  const bool expected =
      *kind == Kind::answer && message.from >= first_server_ && awaited_[message.from - first_server_];
  if (!expected) return Error{Errc::malformed, std::string(name_of(*kind)) + " in its place"};
  const std::uint32_t server = message.from - first_server_;
  Reader body(message.body);
  const auto answer = body.answer();
  if (!answer) return answer.error();
  if (answer->clock != clock_) {
    return Error{Errc::malformed,
                 "it is for push " + std::to_string(answer->clock) + ", not " + std::to_string(clock_)};
  }
  for (const auto i : parts_[server]) {
    at::Tensor parameter = parameters_[i].tensor.detach();
    const auto before = body.left();
    auto read = coder_.read_difference(body, i, turn(learning_rate, true), parameter);
    if (!read) return read.error().within("parameter " + parameters_[i].name);
    traffic_.tensor_received(i, before - body.left());
  }
  if (auto end = body.end(); !end) return end;
  traffic_.answer_received(message.body.size());
  awaited_[server] = false;
  if (server != 0) return {};
  if (answer->version < version_) return Error{Errc::malformed, "it is about an older version than the last one"};
  version_ = answer->version;
  step_ = answer->step;
  halts_ = (answer->flags & Answer::halt) != 0;
  dropped_ = (answer->flags & Answer::dropped) != 0;
  return {};
}

Result<Rest> Client::halt() {
  for (std::uint32_t server = 0; begun_ && server < parts_.size(); ++server) {
    Bytes body;
    if (server == 0) append_buffers(model_, body);
    messenger_.send(first_server_ + server, subject(Kind::halted, clock_), std::move(body));
  }
  begun_ = true;
  return wait_for_leave();
}

Result<Rest> Client::wait_for_leave() {
  const auto message = messenger_.next();
  if (!message) return message.error();
  const auto kind = kind_of(message->about);
  if (!kind) return from(kind.error(), message->from, Kind::go_on);
  if (*kind != Kind::go_on || message->from != first_server_) {
    return from({Errc::malformed, std::string(name_of(*kind)) + " in its place"}, message->from, Kind::go_on);
  }
  Reader body(message->body);
  const auto rest = body.rest();
  if (!rest) return from(rest.error(), message->from, Kind::go_on);
  version_ = rest->version;
  step_ = rest->step;
  halts_ = (rest->flags & Rest::halt) != 0;
  return *rest;
}

Error Client::from(const Error& error, std::uint32_t rank, Kind kind) const {
  return error.within(std::string(name_of(kind)) + " of rank " + std::to_string(rank));
}

Turn Client::turn(double learning_rate, bool answers) const {
  return {.worker = rank_, .clock = clock_, .step = pushed_step_, .learning_rate = learning_rate, .answers = answers};
}

}  // namespace weir::training::servers
