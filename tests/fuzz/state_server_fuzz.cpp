#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/bytes.hpp"
#include "base/ensure.hpp"
#include "training/state_server/messages.hpp"
#include "training/state_server/share_rule.hpp"
#include "training/state_server/step_budget.hpp"

namespace {

using weir::ensure;
using weir::training::Question;
using weir::training::ShareRule;
using weir::training::StepBudget;
using weir::training::WorkerState;

constexpr std::uint32_t workers = 3;
constexpr std::uint64_t steps_max = 50;

}  // namespace

/// Whatever workers tell a state server, a byte for which of them and a question each, it refuses or grants what can
/// be.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  StepBudget steps({.workers = workers, .steps_max = steps_max});
  ShareRule shares(workers);
  double now = 0;
  for (auto rest = std::span(data, size); rest.size() > sizeof(Question); rest = rest.subspan(1 + sizeof(Question))) {
    Question question;
    std::memcpy(&question, rest.data() + 1, sizeof question);
    const WorkerState state{.round = question.round,
                            .steps = question.steps,
                            .step_seconds = question.step_seconds,
                            .encode_seconds = question.encode_seconds,
                            .link_seconds = question.link_seconds,
                            .share = question.share,
                            .left = question.left};
    const std::uint32_t worker = rest[0] % (workers + 1);  // one that is none, too
    const auto more = steps.more(worker, state, now);
    now += 0.01;
    if (!more) break;  // the group ends
    ensure(*more <= steps_max, "more steps than there may be in a round");
    if (state.steps == 0) shares.learn(worker, state, steps.slowest_step());
    for (std::uint32_t each = 0; each < workers; ++each) {
      ensure(shares.share(each) >= ShareRule::share_min && shares.share(each) <= 1, "a share that is none");
    }
  }
  return 0;
}
