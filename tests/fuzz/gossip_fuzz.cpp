// What a neighbour may send in gossip: the differences of its model's tensors, when to stop, and messages of any length
// in an operation between neighbours.

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/gossip/gossip.hpp"
#include "collectives/transports/in_process.hpp"
#include "compressors/catalog.hpp"
#include "compressors/flat.hpp"
#include "message_input.hpp"
#include "training/gossip/choco.hpp"
#include "training/gossip/mixing.hpp"

namespace {

namespace collectives = weir::collectives;
namespace compressors = weir::compressors;

using nlohmann::json;
using weir::Bytes;
using weir::BytesView;
using weir::ensure;
using weir::Errc;
using weir::training::Choco;
using weir::training::NamedTensor;
using weir::training::Step;

struct Case {
  const char* compressor = "";
  json params;
  double epoch = 0;
};

/// Some entries, a code of all, bare numbers, and tensors that go dense in a warm-up.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> made;
    made.push_back({"topk", {{"ratio", 0.3}}, 1000});
    made.push_back({"qsgd", json::object(), 1000});
    made.push_back({"fp16", json::object(), 1000});
    made.push_back({"dgc", {{"warmup_epochs", 1}}, 0});
    return made;
  }();
  return all;
}

/// One of three ranks, each a neighbour of the others, in one step.
class Rank {
 public:
  Rank(const Case& of, std::uint32_t number)
      : compressor_(compressors::builtin().make_compressor(of.compressor, of.params).value()),
        step_{.number = 3, .epoch = of.epoch} {
    std::vector<std::uint32_t> neighbours;
    for (std::uint32_t other = 0; other < 3; ++other) {
      if (other != number) neighbours.push_back(other);
    }
    const std::vector<std::uint32_t> coded{0, 1};
    choco_ = std::make_unique<Choco>(
        parameters_, coded, std::vector<double>{0.5, 0.5}, *compressor_,
        Choco::Options{.seed = 5, .rank = number, .neighbours = std::move(neighbours), .weights = {0.25F, 0.25F}});
    // They have gone their ways since they were equal.
    for (NamedTensor& parameter : parameters_) {
      compressors::fuzz::fill(compressors::flat(parameter.tensor), number);
    }
    choco_->encode(step_, 0, 2, message_, ends_).value();
  }

  const Bytes& message() const { return message_; }
  std::size_t bytes_max() const { return choco_->bytes_max(0, 2); }

  weir::Result<void> take(const std::vector<Bytes>& received) {
    return choco_->take(step_, 0, 2, message_, ends_, received);
  }

  /// What all neighbours know of this rank.
  std::vector<at::Tensor> estimates() const {
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : choco_->save()) {
      if (name.starts_with("estimate.")) all.push_back(tensor);
    }
    return all;
  }

 private:
  std::unique_ptr<compressors::Compressor> compressor_;
  const Step step_;
  std::vector<NamedTensor> parameters_{{"wide", at::zeros({6, 8})}, {"narrow", at::zeros({5, 4})}};
  std::unique_ptr<Choco> choco_;
  Bytes message_;
  std::vector<std::size_t> ends_;
};

/// A step in which rank 1 sends what the input says (message_input.hpp).
void take_differences(const Case& of, BytesView input) {
  Rank own(of, 0);
  const Bytes honest = Rank(of, 1).message();
  const Bytes of_other = Rank(of, 2).message();
  const Bytes message = compressors::fuzz::message_of(input, honest);
  if (message.size() > own.bytes_max()) return;  // it does not come here
  const auto taken = own.take({message, of_other});
  compressors::fuzz::expect_fits(taken, message, honest);
  if (!taken) {
    ensure(taken.error().context.find("rank 1") != std::string::npos, "whose message it is");
    return;
  }
  Rank without(of, 0);
  without.take({honest, of_other}).value();
  const auto estimates = own.estimates();
  const auto due = without.estimates();
  ensure(estimates.size() == 2 && due.size() == 2, "an estimate for each tensor");
  for (std::size_t t = 0; t < 2; ++t) {
    ensure(estimates[t].equal(due[t]), "what others know of a rank depends on what it has sent alone");
  }
}

/// A message about stopping, to a rank that has done as many steps as its first byte says.
void read_stop(BytesView input) {
  if (input.empty()) return;
  const auto done = std::to_integer<std::uint64_t>(input[0]);
  const BytesView message = input.subspan(1);
  weir::training::StopMessage stop;
  const auto read = stop.read(message, done);
  ensure(message.size() == sizeof(std::uint64_t) || !read, "a message of another length");
  for (std::uint64_t steps = 0; steps <= done; ++steps) ensure(!stop.comes_after(steps), "a stop before now");
  if (!read) return;
  weir::training::StopMessage passed_on;
  ensure(passed_on.read(stop.write(), done).has_value(), "what was read is passed on");
}

/// An operation in which the only neighbour sends `message`.
void gossip(bool mixes, BytesView message) {
  constexpr std::size_t bytes_max = 100;
  const auto network = collectives::InProcessNetwork::make(2);
  const auto own = network->communicator(0);
  const auto other = network->communicator(1);
  collectives::Graph graph(2);
  graph.connect(0, 1);
  collectives::Gossip gossip(*own, graph);
  std::vector<float> values(6, 1.0F);
  const auto bytes = std::as_writable_bytes(std::span(values));
  collectives::Gathered gathered{.payloads = {}, .bytes_max = bytes_max};
  const collectives::Subject about{.version = 3, .bucket = 0, .part = 0};
  auto task = mixes ? gossip.mix({bytes}, about) : gossip.gather(bytes, gathered, about);
  task.start();
  other->begin_operation({.name = mixes ? "mix" : "gather",
                          .over = collectives::Gossip::name,
                          .options = graph.fingerprint(),
                          .bytes = mixes ? bytes.size() : 0,
                          .about = about});
  collectives::Send sent(*other, 0, about, message);
  network->run_while_busy();
  ensure(task.done(), "a message that has come is taken or refused");
  const auto result = task.take_result();
  const bool fits = mixes ? message.size() == bytes.size() : message.size() <= bytes_max;
  ensure(result.has_value() == fits, "a message is taken if its length is right");
  if (!result) ensure(result.error().code == Errc::malformed, "another reason");
  if (result && !mixes) ensure(std::ranges::equal(gathered.payloads[0], message), "what was sent has arrived");
}

}  // namespace

/// Byte 0 chooses: differences by one of the compressors, a stop, or an operation.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const BytesView input = std::as_bytes(std::span(data + 1, size - 1));
  const std::size_t what = data[0] % (cases().size() + 3);
  if (what < cases().size()) {
    take_differences(cases()[what], input);
  } else if (what == cases().size()) {
    read_stop(input);
  } else {
    gossip(what == cases().size() + 1, input);
  }
  return 0;
}
