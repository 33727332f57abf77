#include "cluster/checkpoint_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

#include "base/io_error.hpp"
#include "protocol/training.hpp"

namespace weir::cluster {
Result<std::shared_ptr<const CheckpointReader>> CheckpointReader::open(const std::filesystem::path& file,
                                                                       std::span<const protocol::Role> roles) {
  Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor) return io_error("opening " + file.string());
  const std::shared_ptr<CheckpointReader> reader(new CheckpointReader(file, std::move(descriptor)));
  if (auto read = reader->read_header(roles); !read) return read.error();
  return std::shared_ptr<const CheckpointReader>(reader);
}

Result<void> CheckpointReader::read_header(std::span<const protocol::Role> roles) {
  struct stat status {};
  if (::fstat(*descriptor_, &status) != 0) return io_error("reading " + file_.string());
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  Bytes beginning(std::min<std::uint64_t>(file_bytes, sizeof(std::uint64_t)));
  if (auto read = read_file(0, beginning); !read) return read;
  const auto header_bytes = protocol::safetensors_header_bytes(beginning, file_bytes);
  if (!header_bytes) return header_bytes.error();
  beginning.resize(*header_bytes);
  if (auto read = read_file(0, beginning); !read) return read;
  const auto header = protocol::read_safetensors_header(beginning, file_bytes);
  if (!header) return header.error();
  for (std::uint32_t rank = 0; rank < roles.size(); ++rank) {
    auto part = protocol::CheckpointPart::make(*header, rank, roles[rank]);
    if (!part) return part.error();
    parts_.push_back(std::move(*part));
  }
  return {};
}

Result<void> CheckpointReader::read_file(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const auto count = ::pread(*descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return io_error("reading " + file_.string(), count < 0 ? errno : EIO);
    into = into.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

std::uint64_t CheckpointReader::bytes_of_all() const {
  return std::accumulate(parts_.begin(), parts_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& part) { return sum + part.size(); });
}

Result<Segment> CheckpointReader::read(std::uint32_t rank, std::uint64_t offset) const {
  auto bytes =
      parts_.at(rank).read(offset, protocol::checkpoint_piece_bytes,
                           [this](std::uint64_t from, std::span<std::byte> into) { return read_file(from, into); });
  if (!bytes) return bytes.error();
  return Segment::own(std::move(*bytes));
}

}  // namespace weir::cluster
