#include "cuda/nvml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/errc.hpp"

namespace weir::cuda {
namespace {

using testing::HasSubstr;
using testing::Optional;

/// Writes what the fake reads.
class NvmlTest : public testing::Test {
 protected:
  void SetUp() override { ::setenv("WEIR_FAKE_NVML", file_.c_str(), 1); }
  void TearDown() override { std::filesystem::remove(file_); }

  void write(const std::string& text) { std::ofstream(file_) << text; }
  std::unique_ptr<Nvml> open() { return Nvml::open(WEIR_FAKE_NVML_LIBRARY).value(); }

  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("weir-nvml-" + std::to_string(::getpid()));
};

TEST_F(NvmlTest, WithoutTheLibraryThereAreNoGpusAndAReason) {
  const auto nvml = Nvml::open("libno-such-thing.so.1");
  ASSERT_FALSE(nvml.has_value());
  EXPECT_EQ(nvml.error().code, Errc::not_found);
  EXPECT_EQ(nvml.error().context, "there is no NVIDIA driver: libno-such-thing.so.1 cannot be loaded");
}

TEST_F(NvmlTest, ALibraryOfSomethingElseIsTooOld) {
  const auto nvml = Nvml::open("libm.so.6");
  ASSERT_FALSE(nvml.has_value());
  EXPECT_EQ(nvml.error().code, Errc::unsupported);
  EXPECT_EQ(nvml.error().context, "the NVIDIA driver is too old: its libm.so.6 has no nvmlInit_v2");
}

TEST_F(NvmlTest, ADriverThatRefusesSaysWhy) {
  write("ERROR 18\n");
  const auto nvml = Nvml::open(WEIR_FAKE_NVML_LIBRARY);
  ASSERT_FALSE(nvml.has_value());
  EXPECT_EQ(nvml.error().code, Errc::io);
  EXPECT_THAT(nvml.error().context, HasSubstr("Driver/library version mismatch (NVML error 18)"));
}

TEST_F(NvmlTest, ReadsWhatEachGpuKnows) {
  write(
      "GPU GPU-aa|NVIDIA H200|150754820096|1073741824|43|512500|61|2|79\n"
      "GPU GPU-bb|NVIDIA H200|150754820096|-|-|-|-|-|-\n");
  const auto nvml = open();
  EXPECT_EQ(nvml->driver_version(), "580.65.06");
  EXPECT_EQ(nvml->cuda_version(), "13.0");
  const auto gpus = nvml->read().value();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].index, 0u);
  EXPECT_EQ(gpus[0].uuid, "GPU-aa");
  EXPECT_EQ(gpus[0].name, "NVIDIA H200");
  EXPECT_EQ(gpus[0].memory_total_bytes, 150754820096u);
  EXPECT_THAT(gpus[0].sample.memory_used_bytes, Optional(1073741824u));
  EXPECT_THAT(gpus[0].sample.utilization, Optional(0.43)) << "of the processors, not of the memory's bus";
  EXPECT_THAT(gpus[0].sample.power_watts, Optional(512.5));
  EXPECT_THAT(gpus[0].sample.temperature_celsius, Optional(61.0));
  EXPECT_THAT(gpus[0].sample.ecc_errors, Optional(2u));
  EXPECT_THAT(gpus[0].sample.xid, Optional(79u));
  const GpuSample& unknown = gpus[1].sample;
  EXPECT_FALSE(unknown.memory_used_bytes || unknown.utilization || unknown.power_watts || unknown.temperature_celsius ||
               unknown.ecc_errors || unknown.xid);
}

TEST_F(NvmlTest, RemembersTheLastErrorOfAGpu) {
  write("GPU GPU-aa|A|1000|0|0|0|0|0|-\n");
  const auto nvml = open();
  EXPECT_FALSE(nvml->read().value().at(0).sample.xid);
  write("GPU GPU-aa|A|1000|0|0|0|0|0|31\n");
  EXPECT_THAT(nvml->read().value().at(0).sample.xid, Optional(31u));
  EXPECT_THAT(nvml->read().value().at(0).sample.xid, Optional(31u)) << "its event comes only once";
}

TEST_F(NvmlTest, AGpuThatHasFallenOffTheBusIsMissingUntilItComesBack) {
  const std::string first = "GPU GPU-aa|A|1000|0|0|0|0|0|-\n";
  write(first + "GPU GPU-bb|A|1000|0|0|0|0|0|-\n");
  const auto nvml = open();
  EXPECT_EQ(nvml->read().value().size(), 2u);
  write(first + "LOST GPU-bb|A|1000|0|0|0|0|0|-\n");
  ASSERT_EQ(nvml->read().value().size(), 1u);
  EXPECT_EQ(nvml->read().value().at(0).uuid, "GPU-aa");
  write(first + "GPU GPU-bb|A|1000|0|0|0|0|0|-\n");
  EXPECT_EQ(nvml->read().value().size(), 2u);
  write("ERROR 999\n");
  EXPECT_EQ(nvml->read().error().code, Errc::io);
}

TEST_F(NvmlTest, StringsAndNumbersOfTheLibraryAreNotTrusted) {
  write(
      "GPU GPU-a\"b|A|1000|0|0|0|0|0|-\n"  // no UUID
      "GPU MIG-aa|A|1000|0|0|0|0|0|-\n"    // nor this
      "GPU GPU-aa|\x1b[2J|1000|2000|101|4000000000|5000|0|-\n"
      "GPU GPU-aa|twice|1000|0|0|0|0|0|-\n"
      "GPU GPU-" +
      std::string(200, 'b') + "|" + std::string(200, 'n') + "|1000|0|0|0|0|0|-\n");
  const auto gpus = open()->read().value();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, "?[2J");
  EXPECT_FALSE(gpus[0].sample.memory_used_bytes) << "more than there is";
  EXPECT_FALSE(gpus[0].sample.utilization) << "over 100 %";
  EXPECT_FALSE(gpus[0].sample.power_watts);
  EXPECT_FALSE(gpus[0].sample.temperature_celsius);
  EXPECT_EQ(gpus[1].uuid.size(), 96u);
  EXPECT_EQ(gpus[1].name.size(), 96u);
}

}  // namespace
}  // namespace weir::cuda
