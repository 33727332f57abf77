// Pins the wire format: for each case of the catalog, tests/compressors/golden holds the payload of a fixed tensor and
// what it decodes to. A change of these files is a change of the format, and takes a new payload version.
//
//     WEIR_WRITE_GOLDEN=1 compressors_contract_test --gtest_filter='*Golden*'     writes those that are missing

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support.hpp"

namespace weir::compressors::test {
namespace {

namespace fs = std::filesystem;

const fs::path folder = WEIR_GOLDEN_FOLDER;

/// Made by exact arithmetic alone, so that every processor has the same bits: few large entries, many small ones, some
/// zeros.
at::Tensor fixed_tensor() {
  const at::Tensor x = uniform(26 * 40, 2026) - 0.5F;
  return (x * x * x * 8 * (uniform(26 * 40, 7) < 0.9F)).reshape({26, 40});
}

/// Whose floats come out of an eigensolver, whose last bits depend on the processor: here only decoding is held to the
/// bit.
bool through_lapack(const Case& it) { return it.name == "atomo" && it.params.value("atoms", "svd") == "svd"; }

std::string file_name(const Case& it) {
  std::string name = it.name;
  for (const auto& [key, value] : it.params.items()) {
    name += "-" + key + "-" + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return name;
}

Bytes read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> all{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

void write(const fs::path& path, BytesView bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

Bytes floats_of(const at::Tensor& x) {
  const auto bytes = std::as_bytes(std::span(x.data_ptr<float>(), static_cast<std::size_t>(x.numel())));
  return {bytes.begin(), bytes.end()};
}

class Golden : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Catalog, Golden, ::testing::ValuesIn(compressor_names()),
                         [](const auto& info) { return info.param; });

void expect_as_it_was(const Case& it) {
  const fs::path payload_file = folder / (file_name(it) + ".payload");
  const fs::path decoded_file = folder / (file_name(it) + ".decoded");
  const auto compressor = it.make();
  const at::Tensor x = fixed_tensor();
  const Round round = round_at(11, 3);
  const Bytes fresh = encoded(*compressor, x, round);
  if (std::getenv("WEIR_WRITE_GOLDEN") != nullptr && !fs::exists(payload_file)) {
    write(payload_file, fresh);
    write(decoded_file, floats_of(decoded(*compressor, fresh, x, round)));
  }
  ASSERT_TRUE(fs::exists(payload_file)) << "new? see the top of golden_test.cpp";
  const Bytes payload = read(payload_file);
  if (!through_lapack(it)) {
    EXPECT_TRUE(payload == fresh) << payload.size() << " and " << fresh.size() << " bytes";
  }
  // What a compressor of several passes decodes with may be half in this round's state: here all of it is.
  EXPECT_TRUE(read(decoded_file) == floats_of(decoded(*compressor, payload, x, round)));
}

TEST_P(Golden, PayloadsAreAsTheyWere) {
  for (const Case& it : cases()) {
    if (it.name != GetParam()) continue;
    SCOPED_TRACE(::testing::PrintToString(it));
    expect_as_it_was(it);
  }
}

/// A file that no case reads would go on saying what nobody promises.
TEST(GoldenFiles, AreAllOfACase) {
  std::vector<std::string> known;
  for (const Case& it : cases()) known.push_back(file_name(it));
  for (const auto& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().filename().replace_extension().string();
    EXPECT_NE(std::ranges::find(known, name), known.end()) << file.path();
  }
}

}  // namespace
}  // namespace weir::compressors::test
