#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/subject.hpp"

namespace weir::training::servers {

/// What a message is; the `bucket` of its Subject. Numbers in bodies are little endian.
enum class Kind : std::uint32_t {
  push = 1,    ///< worker to every server: Push, the tensors of the server; to the first one buffers, if it evaluates
  answer,      ///< server to worker: Answer, the tensors of the server
  decided,     ///< first server to the others: which workers' pushes make the next version
  late,        ///< first server to the others: a worker's push has come too late
  halt,        ///< first server to the others: answers must not be kept back any more
  halted,      ///< worker to every server: it pushes nothing more until it is told to go on; to the first one: buffers
  rest,        ///< first server to the others, when all workers have halted, and at the beginning: Rest
  rested,      ///< the answer: this server's part is saved
  go_on,       ///< first server to a worker, when all servers have: Rest
  wants_part,  ///< first server to the others: send the parameters
  part,        ///< the answer: the parameters
};

/// The beginning of a push.
struct Push {
  std::uint64_t clock = 0;    ///< pushes of this worker, this one included
  std::uint64_t version = 0;  ///< of the first server's answer before it
  std::uint64_t step = 0;     ///< of the job, in that answer
  std::uint64_t buffers = 0;  ///< bytes of buffers at the end
};

/// The beginning of an answer.
struct Answer {
  std::uint64_t clock = 0;    ///< that of the push
  std::uint64_t version = 0;  ///< what has been applied so far, as the mode counts
  std::uint64_t step = 0;     ///< of the job
  std::uint64_t flags = 0;    ///< a set of those below

  static constexpr std::uint64_t halt = 1;     ///< push nothing more, and say so
  static constexpr std::uint64_t dropped = 2;  ///< the push has come too late
  static constexpr std::uint64_t flags_end = 4;
};

/// What happens when nothing is on its way.
struct Rest {
  std::uint64_t version = 0;  ///< of the first server
  std::uint64_t step = 0;     ///< of the job
  std::uint64_t applied = 0;  ///< pushes so far: equal on all servers
  std::uint64_t flags = 0;    ///< a set of those below

  static constexpr std::uint64_t save = 1;
  static constexpr std::uint64_t end = 2;      ///< the training is over
  static constexpr std::uint64_t stopped = 4;  ///< it is over before its time
  static constexpr std::uint64_t stay = 8;     ///< to a worker: wait for another leave to go on
  static constexpr std::uint64_t halt = 16;    ///< to a worker that was told to stay: halt again, without a push
  static constexpr std::uint64_t part = 32;    ///< to servers: send the parameters too
  static constexpr std::uint64_t flags_end = 64;
};

/// "a push", for errors.
std::string_view name_of(Kind kind);

/// The kind that a subject names. Fails with: malformed.
Result<Kind> kind_of(const collectives::Subject& about);
inline collectives::Subject subject(Kind kind, std::uint64_t version) {
  return {.version = version, .bucket = static_cast<std::uint32_t>(kind), .part = 0};
}

void write(Bytes& out, std::uint64_t number);
void write(Bytes& out, const Push& push);
void write(Bytes& out, const Answer& answer);
void write(Bytes& out, const Rest& rest);

/// Takes an untrusted body apart. Everything fails with: malformed (too short, or an unknown flag).
class Reader {
 public:
  explicit Reader(BytesView body) : rest_(body) {}

  Result<std::uint64_t> number();
  Result<BytesView> bytes(std::uint64_t count);
  Result<Push> push();
  Result<Answer> answer();
  Result<Rest> rest();
  std::size_t left() const { return rest_.size(); }
  /// Refuses a body that goes on.
  Result<void> end() const;

 private:
  BytesView rest_;
};

}  // namespace weir::training::servers
