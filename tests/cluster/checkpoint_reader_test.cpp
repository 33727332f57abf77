#include "cluster/checkpoint_reader.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "protocol/checkpoint.hpp"
#include "protocol/training.hpp"
#include "tests/cluster/temporary_dir.hpp"

namespace weir::cluster {
namespace {

using protocol::Dtype;
using protocol::Role;

constexpr std::array two_workers{Role::worker, Role::worker};

/// A checkpoint of two workers in which rank 1 keeps more than a message may hold, all zeros but for its end. The file
/// has holes: it takes no space.
std::filesystem::path large_checkpoint(const std::filesystem::path& dir, std::string_view end) {
  constexpr std::uint64_t large = std::uint64_t{5} << 30;
  const std::vector<protocol::TensorEntry> tensors{{"model.w", Dtype::u8, {100}, 0, 100},
                                                   {"rank.0.memory", Dtype::u8, {large}, 0, large},
                                                   {"rank.1.memory", Dtype::u8, {large}, 0, large}};
  const auto header =
      protocol::write_safetensors_header(protocol::to_metadata({3, 2, std::nullopt, 0}), tensors).value();
  const auto file = dir / "large.safetensors";
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(header.data()), static_cast<std::streamsize>(header.size()));
  std::filesystem::resize_file(file, header.size() + 100 + 2 * large);
  std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
  out.seekp(-static_cast<std::streamoff>(end.size()), std::ios::end);
  out.write(end.data(), static_cast<std::streamsize>(end.size()));
  return file;
}

TEST(CheckpointReader, ReadsPartsThatAreLongerThanAMessage) {
  const TemporaryDir dir;
  const std::string end = "the last bytes of rank 1";
  const auto reader = CheckpointReader::open(large_checkpoint(dir.path(), end), two_workers).value();
  EXPECT_GT(reader->bytes_of(1), std::uint64_t{5} << 30);
  EXPECT_LT(reader->bytes_of(1), std::uint64_t{6} << 30);
  EXPECT_EQ(reader->bytes_of_all(), reader->bytes_of(0) + reader->bytes_of(1));
  EXPECT_EQ(reader->read(1, 0).value().size(), protocol::checkpoint_piece_bytes);
  const auto last = reader->read(1, reader->bytes_of(1) - end.size()).value();
  ASSERT_EQ(last.size(), end.size());
  EXPECT_EQ(std::memcmp(last.bytes().data(), end.data(), end.size()), 0);
  EXPECT_TRUE(reader->read(1, reader->bytes_of(1)).value().empty());
}

TEST(CheckpointReader, GoesOnWithAFileThatIsRemoved) {
  const TemporaryDir dir;
  const std::string end = "still here";
  const auto file = large_checkpoint(dir.path(), end);
  const auto reader = CheckpointReader::open(file, two_workers).value();
  std::filesystem::remove(file);
  const auto last = reader->read(1, reader->bytes_of(1) - end.size()).value();
  EXPECT_EQ(std::memcmp(last.bytes().data(), end.data(), end.size()), 0);
}

TEST(CheckpointReader, RefusesWhatIsNoCheckpoint) {
  const TemporaryDir dir;
  EXPECT_EQ(CheckpointReader::open(dir.path() / "none", two_workers).error().code, Errc::io);
  const auto file = dir.path() / "file";
  for (const std::string& text : {std::string(), std::string("short"), std::string(100, 'x')}) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
    EXPECT_EQ(CheckpointReader::open(file, two_workers).error().code, Errc::malformed) << text;
  }
}

}  // namespace
}  // namespace weir::cluster
