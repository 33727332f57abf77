#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/pieces.hpp"
#include "base/result.hpp"
#include "cluster/records.hpp"

/// A job's files: `worker-<rank>.log`, `checkpoints/step-<n>.safetensors` and, if it goes on from the checkpoint of
/// another job, `resume.safetensors` in `<data-dir>/jobs/<id>`. These functions block: those about logs run on
/// Services::logs, the others on Services::files.
/// Each fails with: io, exhausted (disk full).
namespace weir::cluster::job_files {

std::filesystem::path log_file(const std::filesystem::path& job_dir, std::uint32_t rank);
std::filesystem::path checkpoint_file(const std::filesystem::path& job_dir, std::uint64_t step);
std::filesystem::path resume_file(const std::filesystem::path& job_dir);

/// Keeps a checkpoint of another job as the resume_file() of this one, whatever happens to the other's files: one file
/// on disk with two names, where the file system can do that. Fails with: not_found (there is no such checkpoint any
/// more).
Result<void> keep_for_resume(const std::filesystem::path& checkpoint, const std::filesystem::path& job_dir);

/// Where the output of a process begins in its log, modulo 2^64: before the file's first byte if somebody has shortened
/// the file. Nothing until the first piece has come.
using LogBegin = std::optional<std::uint64_t>;

/// How much of what the processes of a rank print is kept.
inline constexpr std::uint64_t log_bytes_kept = 256 << 20;

/// Appends `text`, which a process has printed from byte `offset` of its output on. Bytes that the file already has are
/// not written again, so a repeated piece does no harm. If the file is shorter than what was written before, `begin` is
/// moved, so that the output goes on at its end. A log of log_bytes_kept ends with a sentence that says so, and what
/// follows is dropped. Returns where in the file the new part begins and ends.
struct Appended {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
Result<Appended> append_log(const std::filesystem::path& file, LogBegin& begin, std::uint64_t offset,
                            std::string_view text);

/// The size of a file in bytes; 0 if there is no file.
std::uint64_t size_of(const std::filesystem::path& file);

/// Reads at most `limit` bytes; they do not end inside a UTF-8 character unless there is nothing else. An absent file
/// reads as empty.
Result<LogSlice> read_log(const std::filesystem::path& file, std::uint64_t offset, std::uint64_t limit);

/// How much the ranks below `ranks` have printed, without those that have printed nothing.
std::vector<LogSize> log_sizes(const std::filesystem::path& job_dir, std::uint32_t ranks);

/// Joins the shares of all ranks into one checkpoint file, which appears whole or not at all. Returns its size in
/// bytes. Fails with: malformed (shares that do not belong together).
Result<std::uint64_t> write_checkpoint(const std::filesystem::path& file, std::span<const Pieces> shares);

/// Removes what an interrupted write_checkpoint() has left, and files of steps before the last of `kept` that are not
/// among them. Files of later steps stay. What cannot be removed costs space, nothing else.
void remove_leftovers(const std::filesystem::path& job_dir, std::span<const std::uint64_t> kept);

}  // namespace weir::cluster::job_files
