#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "protocol/roles.hpp"
#include "protocol/safetensors.hpp"

namespace weir::protocol {

/// What one process of a job needs of a whole checkpoint to go on from it, as a checkpoint file of its own: the tensors
/// of the job, and its own; for a parameter server also the workers' models, of which it keeps copies. So what is sent
/// to a process does not grow with the number of the others. Made from the header alone: the data are read from the
/// whole file when they are asked for.
class CheckpointPart {
 public:
  /// Reads the whole file's bytes from `offset` on into all of `into`.
  using ReadFile = FunctionRef<Result<void>(std::uint64_t offset, std::span<std::byte> into)>;

  /// Fails with: as write_safetensors_header().
  static Result<CheckpointPart> make(const SafetensorsHeader& whole, std::uint32_t rank, Role role);

  std::uint64_t size() const { return size_; }

  /// Its bytes from `offset` on: `limit`, or as many as there are. Fails with what `read` fails with.
  Result<Bytes> read(std::uint64_t offset, std::uint64_t limit, ReadFile read) const;

 private:
  /// Bytes of the whole file that follow each other here, too.
  struct Run {
    std::uint64_t here = 0;
    std::uint64_t in_file = 0;
    std::uint64_t bytes = 0;
  };

  Bytes header_;
  std::vector<Run> runs_;
  std::uint64_t size_ = 0;
};

}  // namespace weir::protocol
