#include "cluster/job_files.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <system_error>

#include "base/errc.hpp"
#include "base/io_error.hpp"
#include "base/utf8.hpp"
#include "cluster/data_dir.hpp"
#include "protocol/checkpoint.hpp"

namespace weir::cluster::job_files {
namespace {

const std::string step_prefix = "step-";
const std::string step_suffix = ".safetensors";

constexpr std::string_view log_is_full = "\n... more output is not kept\n";

/// The step in the name of a checkpoint_file().
std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(step_prefix) || !name.ends_with(step_suffix)) return std::nullopt;
  name.remove_prefix(step_prefix.size());
  name.remove_suffix(step_suffix.size());
  std::uint64_t step = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), step);
  return failure == std::errc() && end == name.data() + name.size() ? std::optional(step) : std::nullopt;
}

Result<void> make_parent(const std::filesystem::path& file) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) return io_error("making " + file.parent_path().string(), error.value());
  return {};
}

}  // namespace

std::filesystem::path log_file(const std::filesystem::path& job_dir, std::uint32_t rank) {
  return job_dir / ("worker-" + std::to_string(rank) + ".log");
}

std::filesystem::path checkpoint_file(const std::filesystem::path& job_dir, std::uint64_t step) {
  return job_dir / "checkpoints" / (step_prefix + std::to_string(step) + step_suffix);
}

std::filesystem::path resume_file(const std::filesystem::path& job_dir) { return job_dir / "resume.safetensors"; }

Result<void> keep_for_resume(const std::filesystem::path& checkpoint, const std::filesystem::path& job_dir) {
  const auto file = resume_file(job_dir);
  if (auto made = make_parent(file); !made) return made;
  std::error_code error;
  std::filesystem::create_hard_link(checkpoint, file, error);
  if (error && error != std::errc::no_such_file_or_directory) {  // not every file system has hard links
    std::filesystem::copy_file(checkpoint, file, error);
  }
  if (error == std::errc::no_such_file_or_directory) return Error{Errc::not_found, checkpoint.string() + " is gone"};
  if (error) return io_error("keeping " + checkpoint.string(), error.value());
  return {};
}

std::uint64_t size_of(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  return error ? 0 : size;
}

Result<Appended> append_log(const std::filesystem::path& file, LogBegin& begin, std::uint64_t offset,
                            std::string_view text) {
  const auto size = size_of(file);
  const bool follows = begin && static_cast<std::int64_t>(size - *begin - offset) >= 0;
  if (!follows) begin = size - offset;
  const std::uint64_t present = size - *begin - offset;
  if (text.size() <= present || size >= log_bytes_kept) return Appended{size, size};
  std::string more(text.substr(present, log_bytes_kept - size));
  if (more.size() == log_bytes_kept - size) more += log_is_full;
  if (auto made = make_parent(file); !made) return made.error();
  std::ofstream out(file, std::ios::binary | std::ios::app);
  out.write(more.data(), static_cast<std::streamsize>(more.size()));
  out.flush();
  if (!out) {
    const int number = errno;
    std::error_code ignored;
    std::filesystem::resize_file(file, size, ignored);  // a piece written in part would shift what follows
    return io_error("writing " + file.string(), number);
  }
  return Appended{size, size + more.size()};
}

Result<LogSlice> read_log(const std::filesystem::path& file, std::uint64_t offset, std::uint64_t limit) {
  LogSlice slice;
  slice.size = size_of(file);
  slice.offset = std::min(offset, slice.size);
  slice.text.resize(std::min(limit, slice.size - slice.offset));
  if (!slice.text.empty()) {
    std::ifstream in(file, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(slice.offset));
    in.read(slice.text.data(), static_cast<std::streamsize>(slice.text.size()));
    if (!in && !in.eof()) return io_error("reading " + file.string());
    slice.text.resize(static_cast<std::size_t>(in.gcount()));
  }
  if (const auto tail = unfinished_tail(slice.text); tail < slice.text.size()) {
    slice.text.resize(slice.text.size() - tail);
  }
  slice.next = slice.offset + slice.text.size();
  return slice;
}

std::vector<LogSize> log_sizes(const std::filesystem::path& job_dir, std::uint32_t ranks) {
  std::vector<LogSize> sizes;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (const auto size = size_of(log_file(job_dir, rank)); size > 0) sizes.push_back({rank, size});
  }
  return sizes;
}

Result<std::uint64_t> write_checkpoint(const std::filesystem::path& file, std::span<const Pieces> shares) {
  const auto joined = protocol::join_checkpoint(shares);
  if (!joined) return joined.error();
  if (auto made = make_parent(file); !made) return made.error();
  std::vector<BytesView> pieces{joined->header};
  pieces.insert(pieces.end(), joined->data.begin(), joined->data.end());
  if (auto written = write_file_atomically(file, pieces); !written) return written.error();
  std::uint64_t bytes = 0;
  for (const BytesView piece : pieces) bytes += piece.size();
  return bytes;
}

void remove_leftovers(const std::filesystem::path& job_dir, std::span<const std::uint64_t> kept) {
  std::error_code ignored;
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint_file(job_dir, 0).parent_path(), ignored)) {
    found.push_back(entry.path());
  }
  for (const auto& file : found) {
    const std::string name = file.filename().string();
    const auto step = step_of(name);
    const bool is_begun = name.ends_with(".new");
    const bool is_old = step && !kept.empty() && *step < kept.back() && std::ranges::count(kept, *step) == 0;
    if (is_begun || is_old) std::filesystem::remove(file, ignored);
  }
}

}  // namespace weir::cluster::job_files
