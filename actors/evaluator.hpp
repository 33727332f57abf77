#pragma once

#include <memory>
#include <string_view>

#include "actors/compute_thread.hpp"
#include "base/bytes.hpp"
#include "protocol/job_spec.hpp"
#include "runtime/actor.hpp"

namespace weir::actors {

/// The quality of a model on the test examples.
struct Measured {
  double accuracy = 0;  ///< share of test examples whose class is predicted correctly, 0 to 1
  double loss = 0;      ///< mean cross-entropy over the test examples
};

/// Measures models on the test examples.
struct Evaluation {
  static constexpr std::string_view type_name = "evaluation";
  virtual ~Evaluation() = default;

  /// `model`: a safetensors file with the model's tensors, from Replica::save_model() or a checkpoint. Fails with:
  /// malformed, conflict (the tensors of another model).
  virtual net::awaitable<Result<Measured>> evaluate(Segment model) = 0;

  static constexpr auto methods() { return runtime::methods<runtime::Method<&Evaluation::evaluate, "evaluate">>(); }
};

/// Measures the models of one job, on a thread of its own beside the training.
class Evaluator final : public runtime::Actor<Evaluation> {
 public:
  /// A model into which parameters are loaded, and the examples to test it on.
  struct Bench;

  /// Reads the test examples and makes the model, which may take a while. Fails with: not_found (the dataset's test
  /// files), malformed (those files), and as make_model() does.
  static Result<std::shared_ptr<const Bench>> prepare(const protocol::JobSpec& spec);

  explicit Evaluator(std::shared_ptr<const Bench> bench);
  ~Evaluator() override;

  net::awaitable<Result<Measured>> evaluate(Segment model) override;

 private:
  const std::shared_ptr<const Bench> bench_;  ///< used on the compute thread only
  ComputeThread compute_;                     ///< last: it uses the above
};

}  // namespace weir::actors
