#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "cluster/records.hpp"

/// A job's files: `worker-<rank>.log` and `checkpoints/step-<n>.safetensors` in `<data-dir>/jobs/<id>`. These functions
/// block: they run on Services::files. Each fails with: io, exhausted (disk full).
namespace weir::cluster::job_files {

std::filesystem::path log_file(const std::filesystem::path& job_dir, std::uint32_t rank);
std::filesystem::path checkpoint_file(const std::filesystem::path& job_dir, std::uint64_t step);

/// Writes `text` at `offset` of the log. Bytes that the file already has are not written again, so a repeated piece
/// does no harm. Returns the new part and its offset. Fails with: malformed (the bytes before `offset` are missing).
struct Appended {
  std::uint64_t offset = 0;
  std::string text;
};
Result<Appended> append_log(const std::filesystem::path& file, std::uint64_t offset, std::string_view text);

/// The size of a file in bytes; 0 if there is no file.
std::uint64_t size_of(const std::filesystem::path& file);

/// Reads at most `limit` bytes; they do not end inside a UTF-8 character unless there is nothing else. An absent file
/// reads as empty.
Result<LogSlice> read_log(const std::filesystem::path& file, std::uint64_t offset, std::uint64_t limit);

/// How much the ranks below `ranks` have printed, without those that have printed nothing.
std::vector<LogSize> log_sizes(const std::filesystem::path& job_dir, std::uint32_t ranks);

/// Joins the shares of all ranks into one checkpoint file, which appears whole or not at all. Returns its size in
/// bytes. Fails with: malformed (shares that do not belong together).
Result<std::uint64_t> write_checkpoint(const std::filesystem::path& file, std::span<const Segment> shares);

Result<Segment> read_checkpoint(const std::filesystem::path& file);

}  // namespace weir::cluster::job_files
