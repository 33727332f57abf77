#include "training/datasets/idx.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>

#include "base/errc.hpp"
#include "training/datasets/data_file.hpp"

namespace weir::training {
namespace {

constexpr std::uint8_t type_unsigned_byte = 8;
constexpr std::uint64_t elements_max = std::uint64_t{4} << 30;
constexpr std::size_t first_chunk_bytes = std::size_t{4} << 10;
constexpr std::size_t chunk_bytes_max = std::size_t{8} << 20;

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<std::remove_pointer_t<gzFile>, CloseGzip>;

Result<void> read_exactly(const ByteSource& source, std::span<std::uint8_t> out, std::uint64_t before,
                          std::uint64_t expected) {
  const auto got = source(out);
  if (!got) return got.error();
  if (*got == out.size()) return {};
  return Error{Errc::malformed, "it ends after " + std::to_string(before + *got) + " of " + std::to_string(expected) +
                                    " bytes: the file is truncated"};
}

Result<std::size_t> read_gzip(gzFile file, std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const auto want = static_cast<unsigned>(std::min(out.size() - done, chunk_bytes_max));
    const int got = gzread(file, out.data() + done, want);
    int code = Z_OK;
    if (got < 0) return Error{Errc::malformed, std::string("zlib: ") + gzerror(file, &code)};
    done += static_cast<std::size_t>(got);
    if (static_cast<unsigned>(got) < want) break;
  }
  return done;
}

/// Opens a file, calls `read` with what it has, decompressed, and adds the name of the file to an error of that.
template <class Read>
auto with_file(const std::string& path, const Read& read) -> decltype(read(ByteSource())) {
  const auto opened = DataFile::open(path);
  if (!opened) return opened.error();
  const int descriptor = ::fcntl(*opened->descriptor(), F_DUPFD_CLOEXEC, 0);  // zlib closes it
  const GzipFile file(gzdopen(descriptor, "rb"));
  if (!file) {
    const int why = errno;
    if (descriptor >= 0) ::close(descriptor);
    return Error{Errc::io, path + ": " + std::strerror(why)};
  }
  gzbuffer(file.get(), 1 << 17);
  auto result = read([&](std::span<std::uint8_t> out) { return read_gzip(file.get(), out); });
  if (!result) return result.error().within(path);
  return result;
}

}  // namespace

Result<std::vector<std::uint32_t>> read_idx_extents(const ByteSource& source, std::size_t dimensions) {
  std::array<std::uint8_t, 4> magic{};
  if (auto read = read_exactly(source, magic, 0, magic.size()); !read) return read.error();
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != type_unsigned_byte || magic[3] != dimensions) {
    return Error{Errc::malformed, "its first bytes are not those of an IDX array of bytes with " +
                                      std::to_string(dimensions) + " dimensions"};
  }
  std::vector<std::uint8_t> raw(4 * dimensions);
  if (auto read = read_exactly(source, raw, magic.size(), magic.size() + raw.size()); !read) return read.error();
  std::vector<std::uint32_t> extents;
  for (std::size_t i = 0; i < raw.size(); i += 4) {
    extents.push_back(static_cast<std::uint32_t>(raw[i] << 24 | raw[i + 1] << 16 | raw[i + 2] << 8 | raw[i + 3]));
  }
  std::uint64_t size = 1;
  for (const auto extent : extents) {
    if (__builtin_mul_overflow(size, std::uint64_t{extent}, &size) || size > elements_max) {
      return Error{Errc::malformed, "its header claims more than 4 GiB"};
    }
  }
  return extents;
}

Result<Idx> read_idx(const ByteSource& source, std::size_t dimensions, const ExtentsCheck& check) {
  auto extents = read_idx_extents(source, dimensions);
  if (!extents) return extents.error();
  const std::uint64_t size =
      std::accumulate(extents->begin(), extents->end(), std::uint64_t{1}, std::multiplies<std::uint64_t>());
  if (check) {
    if (auto wanted = check(*extents); !wanted) return wanted.error();
  }
  const std::uint64_t header = 4 + 4 * dimensions;
  Idx idx{std::move(*extents), {}};
  while (idx.elements.size() < size) {
    const auto before = idx.elements.size();
    // Allocates never much more than what has arrived, whatever the header claims.
    const auto chunk_bytes = std::clamp(before, first_chunk_bytes, chunk_bytes_max);
    idx.elements.resize(std::min<std::uint64_t>(size, before + chunk_bytes));
    const auto chunk = std::span(idx.elements).subspan(before);
    if (auto read = read_exactly(source, chunk, header + before, header + size); !read) return read.error();
  }
  std::array<std::uint8_t, 1> more{};
  const auto after = source(more);
  if (!after) return after.error();
  if (*after != 0)
    return Error{Errc::malformed, "it goes on after the " + std::to_string(header + size) + " bytes it claims"};
  return idx;
}

Result<std::vector<std::uint32_t>> read_idx_file_extents(const std::string& path, std::size_t dimensions) {
  return with_file(path, [&](const ByteSource& source) { return read_idx_extents(source, dimensions); });
}

Result<Idx> read_idx_file(const std::string& path, std::size_t dimensions, const ExtentsCheck& check) {
  return with_file(path, [&](const ByteSource& source) { return read_idx(source, dimensions, check); });
}

}  // namespace weir::training
