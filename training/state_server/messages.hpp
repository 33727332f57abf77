#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weir::training {

// What a worker and the state server say. The messages of a worker are numbered from 0 in the version of their subject,
// as are the answers. Numbers are little-endian.

enum class Asks : std::uint64_t {
  steps = 0,    ///< how many to make; it is answered
  nothing = 1,  ///< the worker leaves, with steps `left` to make unless it has finished; there is no answer
  probe = 2,    ///< leave to send `bytes` bytes. They follow as part 1; both are answered
};

struct Question {
  std::uint64_t asks = 0;
  std::uint64_t job_step = 0;
  std::uint64_t round = 0;
  std::uint64_t steps = 0;
  std::uint64_t left = 0;
  std::uint64_t bytes = 0;  ///< of a probe
  double step_seconds = 0;
  double encode_seconds = 0;
  double link_seconds = 0;
  double share = 1;
};
static_assert(sizeof(Question) == 80 && std::is_trivially_copyable_v<Question>);

struct Answer {
  std::uint64_t steps = 0;
  double share = 1;
};
static_assert(sizeof(Answer) == 16 && std::is_trivially_copyable_v<Answer>);

using QuestionBytes = std::array<std::byte, sizeof(Question)>;
using AnswerBytes = std::array<std::byte, sizeof(Answer)>;

/// The longest probe.
inline constexpr std::uint64_t probe_bytes_max = std::uint64_t{16} << 20;

}  // namespace weir::training
