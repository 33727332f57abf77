#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "collectives/gossip/gossip.hpp"
#include "collectives/task.hpp"
#include "training/exchange/step.hpp"
#include "training/exchange/step_trace.hpp"

namespace weir::training {

/// What a rank and its neighbours in a graph tell each other in a step: a number of messages, one after the other, in
/// the order of their numbers. Each is carried in the background as soon as it is ready and those before it are
/// through.
///
///     neighbours.begin(step);
///     neighbours.gather(0, own, bytes_max, load);   // or mix(); all messages, in any order
///     result = neighbours.wait(0);                  // then gathered(0) are the neighbours' payloads
///
/// Used by the compute thread. After the first failure every message fails, with what the group fails with.
class NeighbourExchange {
 public:
  /// The tensors of a message and where each of them ends among its bytes, for the trace.
  using Load = BucketRound::Load;

  /// `parameters` are those that loads mean. What `fabric` and `parameters` refer to must outlive this object.
  NeighbourExchange(collectives::Fabric& fabric, const collectives::Graph& graph,
                    std::span<const NamedTensor> parameters, std::size_t messages);
  /// Gives up what is under way.
  ~NeighbourExchange();
  NeighbourExchange(const NeighbourExchange&) = delete;
  NeighbourExchange& operator=(const NeighbourExchange&) = delete;

  /// All messages of the step before must be through.
  void begin(const Step& step);

  /// `values` are to become the sum of the neighbours' and the own ones by the weights of the graph. They must stay
  /// where they are until wait() returns, as what gather() and `load` refer to.
  void mix(std::size_t message, std::span<float> values, const Load& load);
  /// `own` goes to all neighbours, none of whom may send more than `bytes_max` bytes.
  void gather(std::size_t message, BytesView own, std::size_t bytes_max, const Load& load);

  /// Waits until the message is through.
  Result<void> wait(std::size_t message);
  /// What the neighbours have sent, in the order of neighbours().
  std::span<const Bytes> gathered(std::size_t message) const { return messages_[message]->gathered.payloads; }

  std::span<const std::uint32_t> neighbours() const { return gossip_->neighbours(); }
  /// Of neighbours().
  std::span<const float> weights() const { return weights_; }

  /// Makes each of `values` the sum over all ranks, around a ring. Between two steps, on all ranks together.
  Result<void> add_up(std::span<float> values);

  StepTrace& trace() { return trace_; }
  const StepTrace& trace() const { return trace_; }

 private:
  class Call;
  class Ready;

  struct Message {
    std::unique_ptr<Call> call;
    bool mixes = false;
    std::span<float> values;
    BytesView own;
    collectives::Gathered gathered;
    Load load;
    bool ready = false;  ///< on the loop's thread
  };

  void start();
  void now_ready(std::size_t message);
  collectives::Task<> carry_all();
  collectives::Task<> carry(std::size_t message);
  void end(std::size_t message, const Result<void>& result);

  collectives::Fabric& fabric_;
  const std::uint32_t lane_;
  std::vector<float> weights_;
  StepTrace trace_;
  std::vector<std::unique_ptr<Message>> messages_;
  std::unique_ptr<Call> start_;
  Step step_;

  // Used on the loop's thread.
  std::unique_ptr<collectives::Gossip> gossip_;
  Ready* awaited_ = nullptr;
  std::size_t current_ = 0;  ///< the message that is next or under way
  std::optional<collectives::Task<>> task_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t through_ = 0;  ///< number of messages
  std::optional<Error> failure_;
};

}  // namespace weir::training
