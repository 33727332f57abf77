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
  /// not_found (the dataset's test files), malformed (those files, or `model`), conflict (the tensors of another
  /// model).
  virtual net::awaitable<Result<Measured>> evaluate(Segment model) = 0;

  static constexpr auto methods() { return runtime::methods<runtime::Method<&Evaluation::evaluate, "evaluate">>(); }
};

/// Measures the models of one job, on a thread of its own beside the training. Reads the test examples when the first
/// model arrives.
class Evaluator final : public runtime::Actor<Evaluation> {
 public:
  explicit Evaluator(protocol::JobSpec spec);
  ~Evaluator() override;

  net::awaitable<Result<Measured>> evaluate(Segment model) override;

 private:
  struct Bench;
  static Result<Measured> measure(const protocol::JobSpec& spec, std::unique_ptr<Bench>& bench, const Segment& model);

  protocol::JobSpec spec_;
  std::unique_ptr<Bench> bench_;  ///< used on the compute thread only
  ComputeThread compute_;         ///< last: it uses the above
};

}  // namespace weir::actors
