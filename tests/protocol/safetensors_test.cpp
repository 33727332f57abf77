#include "protocol/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/errc.hpp"

namespace weir::protocol {
namespace {

Segment file_of(std::string header, std::size_t data_bytes, std::uint64_t header_bytes) {
  Bytes out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<std::byte>(header_bytes >> (8 * i)));
  for (const char c : header) out.push_back(static_cast<std::byte>(c));
  out.resize(out.size() + data_bytes);
  return Segment::own(std::move(out));
}

Segment file_of(const std::string& header, std::size_t data_bytes) {
  return file_of(header, data_bytes, header.size());
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, AHeaderThatNobodyWouldReadIsNotWritten) {
  const std::map<std::string, std::string> metadata{{"long", std::string(safetensors_header_bytes_max, 'x')}};
  EXPECT_EQ(write_safetensors(metadata, {}).error().code, Errc::invalid_argument);
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  std::vector<float> weights(6);
  std::iota(weights.begin(), weights.end(), 1.0f);
  const std::vector<std::uint8_t> state{1, 2, 3};
  const std::vector<StoredTensor> tensors{{"state", Dtype::u8, {3}, std::as_bytes(std::span(state))},
                                          {"empty", Dtype::f32, {0, 4}, {}},
                                          {"weights", Dtype::f32, {2, 3}, std::as_bytes(std::span(weights))}};
  auto bytes = write_safetensors({{"step", "7"}}, tensors).value();
  const auto file = read_safetensors(Segment::own(std::move(bytes))).value();

  EXPECT_EQ(file.metadata.at("step"), "7");
  ASSERT_EQ(file.tensors.size(), 3u);
  const auto* read = file.find("weights");
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->shape, (std::vector<std::uint64_t>{2, 3}));
  ASSERT_EQ(read->bytes.size(), 24u);
  EXPECT_EQ(std::memcmp(read->bytes.data(), weights.data(), 24), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read->bytes.data()) % 4, 0u);
  EXPECT_EQ(file.find("state")->bytes.size(), 3u);
  EXPECT_TRUE(file.find("empty")->bytes.empty());
  EXPECT_EQ(file.find("other"), nullptr);
}

TEST(Safetensors, EqualContentsGiveEqualBytes) {
  const std::vector<float> one{1}, two{2};
  const StoredTensor a{"a", Dtype::f32, {1}, std::as_bytes(std::span(one))};
  const StoredTensor b{"b", Dtype::f32, {1}, std::as_bytes(std::span(two))};
  const std::vector<StoredTensor> forth{a, b}, back{b, a};
  EXPECT_EQ(write_safetensors({}, forth).value(), write_safetensors({}, back).value());
}

TEST(Safetensors, RefusesToWriteWhatItCouldNotRead) {
  const std::vector<float> one{1};
  const StoredTensor a{"a", Dtype::f32, {1}, std::as_bytes(std::span(one))};
  const StoredTensor wrong{"b", Dtype::f32, {2}, std::as_bytes(std::span(one))};
  const StoredTensor reserved{"__metadata__", Dtype::f32, {1}, std::as_bytes(std::span(one))};
  EXPECT_EQ(write_safetensors({}, std::vector{a, a}).error().code, Errc::invalid_argument);
  EXPECT_EQ(write_safetensors({}, std::vector{wrong}).error().code, Errc::invalid_argument);
  EXPECT_EQ(write_safetensors({}, std::vector{reserved}).error().code, Errc::invalid_argument);
}

TEST(Safetensors, RefusesHostileFiles) {
  const std::string good = "{" + entry("a", "F32", "[2]", "[0,8]") + "}";
  ASSERT_TRUE(read_safetensors(file_of(good, 8)));

  const std::vector<std::pair<const char*, Segment>> files{
      {"empty", Segment{}},
      {"length only", file_of("", 0, 2)},
      {"header longer than the file", file_of(good, 8, good.size() + 9)},
      {"header length of 2^64-1", file_of(good, 8, ~0ull)},
      {"not JSON", file_of("{]", 0)},
      {"not an object", file_of("[1]", 0)},
      {"nested far too deep", file_of(std::string(100'000, '['), 0)},
      {"bytes beyond the tensors", file_of(good, 9)},
      {"data missing", file_of(good, 7)},
      {"end before begin", file_of("{" + entry("a", "F32", "[2]", "[8,0]") + "}", 8)},
      {"a product that overflows", file_of("{" + entry("a", "F32", "[4611686018427387904,4]", "[0,0]") + "}", 0)},
      {"an extent beyond signed numbers", file_of("{" + entry("a", "U8", "[0,9223372036854775808]", "[0,0]") + "}", 0)},
      {"a product that overflows but for a zero",
       file_of("{" + entry("a", "U8", "[4294967296,0,4294967296]", "[0,0]") + "}", 0)},
      {"negative", file_of("{" + entry("a", "F32", "[-1]", "[0,0]") + "}", 0)},
      {"fraction", file_of("{" + entry("a", "F32", "[1.5]", "[0,4]") + "}", 4)},
      {"one offset", file_of("{" + entry("a", "F32", "[1]", "[0]") + "}", 4)},
      {"shape is text", file_of("{" + entry("a", "F32", "\"x\"", "[0,4]") + "}", 4)},
      {"entry is a number", file_of("{\"a\":1}", 0)},
      {"no dtype", file_of("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4)},
      {"metadata holds a number", file_of("{\"__metadata__\":{\"a\":1}}", 0)},
      {"metadata is text", file_of("{\"__metadata__\":\"a\"}", 0)},
      {"overlap",
       file_of("{" + entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "F32", "[2]", "[4,12]") + "}", 12)},
      {"hole", file_of("{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "F32", "[1]", "[8,12]") + "}", 12)},
      {"twice", file_of("{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("a", "F32", "[1]", "[4,8]") + "}", 8)},
  };
  for (const auto& [what, file] : files) {
    const auto read = read_safetensors(file);
    ASSERT_FALSE(read) << what;
    EXPECT_EQ(read.error().code, Errc::malformed) << what << ": " << read.error().message();
  }
  EXPECT_EQ(read_safetensors(file_of("{" + entry("a", "F7", "[1]", "[0,4]") + "}", 4)).error().code, Errc::unsupported);
}

TEST(Safetensors, AHeaderOfManyObjectsTakesTheTimeOfItsBytes) {
  std::string header = "{\"a\":[{}";
  for (int i = 1; i < 1'500'000; ++i) header += ",{}";
  EXPECT_EQ(read_safetensors(file_of(header + "]}", 0)).error().code, Errc::malformed);
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::vector<float> one{1};
  const StoredTensor a{"a", Dtype::f32, {1}, std::as_bytes(std::span(one))};
  const auto bytes = write_safetensors({{"k", "v"}}, std::vector{a}).value();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(read_safetensors(Segment::own(Bytes(bytes.begin(), bytes.begin() + size)))) << size;
  }
}

}  // namespace
}  // namespace weir::protocol
