#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "training/progress.hpp"
#include "training/servers/buffers.hpp"
#include "training/servers/messenger.hpp"
#include "training/servers/rule.hpp"
#include "training/servers/server.hpp"

namespace weir::training::servers {

/// A server at work: takes one message after the other, on the thread of the server.
///
/// Workers rest now and then, so that nothing is on its way: at the beginning, when the state is saved, and at the end.
/// The first server's answers then ask for it (Answer::halt). A worker whose push is answered by all servers tells all
/// of them that it has halted. When all workers have, the first server has the other servers save their parts, and
/// afterwards lets the workers go on, or end, who save theirs before that. A stop waits until the step is another than
/// that of the state that was saved last.
class Serving {
 public:
  /// The server and the fabric must outlive this object.
  Serving(Server& server, collectives::Fabric& fabric, Progress& progress);

  /// Until the end of the training; returns whether all steps are done.
  Result<bool> run();

 private:
  /// An answer that was sent.
  struct Answered {
    std::size_t body_bytes = 0;
    std::vector<std::size_t> tensor_bytes;  ///< of each tensor of the server
  };
  /// Of a worker.
  struct Client {
    std::optional<Messenger::Message> held;  ///< its push, until it is answered
    Push push;                               ///< of that
    std::optional<Answered> answered;        ///< the last one, until what the worker sends next says that it has it
    bool halted = false;
  };

  Result<void> take(Messenger::Message message);
  Result<void> take_push(Messenger::Message message);
  Result<void> take_halted(const Messenger::Message& message);
  Result<void> take_order(Kind kind, const Messenger::Message& message);
  Result<void> take_word(Kind kind, const Messenger::Message& message);

  Result<void> carry_out(const std::vector<Decision>& decisions);
  Result<void> apply(const std::vector<std::uint32_t>& workers);
  Result<void> answer(std::uint32_t worker, bool dropped);
  void count_answer(Client& client);
  void tell(const Decision& decision);
  void tell(Kind kind, std::span<const std::uint32_t> workers);
  Result<void> record(const std::vector<std::uint32_t>& workers);

  // The first server alone.
  Result<void> look_for_what_is_due();
  Result<void> begin_halt();
  Result<void> rest();
  Result<void> end_rest();
  void send_leave(std::uint32_t worker, std::uint64_t flags);
  Result<void> begin_evaluation();
  Result<void> give_model();

  Result<void> rest_as_told();
  Result<void> save();
  bool all_halted() const;
  Turn turn_of(std::uint32_t worker, bool answers) const;
  bool first() const { return server_.place.first(); }

  Server& server_;
  Progress& progress_;
  Messenger messenger_;
  std::unique_ptr<PushRule> rule_;
  std::vector<Client> clients_;
  MeanBuffers buffers_;
  bool halting_ = false;              ///< the first server wants the workers to halt
  std::optional<Rest> told_to_rest_;  ///< on the others: until all workers have halted
  std::optional<Rest> resting_;       ///< on the first: the others are saving
  std::vector<bool> awaited_;         ///< on the first, by server: its word
  std::vector<bool> parts_awaited_;   ///< on the first, by server: its parameters, for an evaluation
  std::uint64_t evaluations_ = 0;     ///< that were due so far
  std::uint64_t saves_ = 0;
  std::uint64_t kept_step_ = 0;  ///< of the state that was saved last, or that the training began with
  bool evaluation_due_ = false;  ///< and not begun
  bool stopping_ = false;
  bool save_due_ = false;
  bool ended_ = false;
  bool finished_ = false;

  // Since the last record.
  ServedRecord record_;
  std::uint64_t recorded_step_ = 0;
  std::uint64_t pushes_ = 0;
};

}  // namespace weir::training::servers
