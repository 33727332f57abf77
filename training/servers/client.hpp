#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "compressors/catalog.hpp"
#include "training/models/model.hpp"
#include "training/servers/messages.hpp"
#include "training/servers/messenger.hpp"
#include "training/servers/push_traffic.hpp"
#include "training/servers/tensor_coder.hpp"
#include "training/side_stream.hpp"

namespace weir::training::servers {

/// A worker's end of the talk with the servers: pushes gradients and takes the answers into the model. Used by the
/// compute thread of the worker, which waits for a device, if the model is on one, only until what is sent has come
/// down. Fails with: malformed (what a server has sent; names its rank and the tensor), with what Compressor and Memory
/// fail with, and with what the group fails with.
class Client {
 public:
  /// What belongs to a worker's ranks.
  struct Setting {
    std::uint32_t servers = 1;
    bool evaluates = false;  ///< the model is evaluated in between: the buffers go with every push
    CodingSetting coding;
  };
  /// Times of a push, in seconds.
  struct Times {
    double encode = 0;
    double wait = 0;  ///< for answers
    double decode = 0;
  };

  /// The model and the compression are changed; all must outlive this object. `clock`: pushes so far.
  Client(Model& model, const compressors::Compression& compression, collectives::Fabric& fabric, const Setting& setting,
         std::uint64_t clock);

  /// Sends the gradients, each of which is undefined or beside its parameter, and takes what the servers answer.
  /// Blocks.
  Result<Times> push(std::span<const at::Tensor> gradients, double learning_rate);

  /// The first server wants this worker to halt; also before the first push.
  bool halts() const { return halts_; }
  /// The last push has come too late.
  bool dropped() const { return dropped_; }
  /// Tells all servers, and waits until it may go on. Also before the first push, without telling anybody.
  Result<Rest> halt();
  /// Waits for another leave, after one with Rest::stay.
  Result<Rest> wait_for_leave();

  /// Ends the group, for a failure of this worker.
  void abort(const Error& cause) { fabric_.abort(cause); }

  std::uint64_t clock() const { return clock_; }
  std::uint64_t step() const { return step_; }             ///< of the job, as the first server has said it last
  const PushTraffic& traffic() const { return traffic_; }  ///< not while a push is under way

 private:
  Result<std::vector<std::size_t>> write_gradients(std::uint32_t server, std::span<const at::Tensor> gradients,
                                                   double learning_rate, Bytes& body);
  Result<void> take_answer(const Messenger::Message& message, double learning_rate);
  Error from(const Error& error, std::uint32_t rank, Kind kind) const;
  Turn turn(double learning_rate, bool answers) const;

  Model& model_;
  const std::vector<NamedTensor> parameters_;
  const std::vector<std::vector<std::uint32_t>> parts_;  ///< by server
  collectives::Fabric& fabric_;
  const std::uint32_t rank_;
  const std::uint32_t first_server_;
  const bool sends_buffers_;
  TensorCoder coder_;
  std::optional<SideStream> beside_;  ///< in which tensors on a device are coded
  PushTraffic traffic_;
  Messenger messenger_;
  std::uint64_t clock_;
  std::uint64_t version_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t pushed_step_ = 0;  ///< in the push under way
  bool halts_ = true;
  bool begun_ = false;
  bool dropped_ = false;
  std::vector<bool> awaited_;  ///< by server
};

}  // namespace weir::training::servers
