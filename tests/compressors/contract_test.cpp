// What every compressor promises, whatever it does. A new one is tested by standing in the catalog. What some promise
// of their errors is in promises_test.cpp.

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <thread>

#include "base/errc.hpp"
#include "base/processor.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/flat.hpp"
#include "contract.hpp"

namespace weir::compressors::test {
namespace {

using ::testing::HasSubstr;

/// What only compressors promise whose last pass is gathered.
class GatheredContract : public CompressorContract {};

/// What only compressors promise whose last pass is a sum.
class SummedContract : public CompressorContract {};

std::vector<std::string> names(bool gathered) {
  std::vector<std::string> found = compressor_names();
  std::erase_if(found, [&](const std::string& name) {
    const Traits traits = Case{name, nlohmann::json::object()}.make()->traits();
    return (traits.passes.back() == Reduction::gather) != gathered;
  });
  return found;
}

INSTANTIATE_TEST_SUITE_P(Catalog, CompressorContract, ::testing::ValuesIn(compressor_names()), name_of);
INSTANTIATE_TEST_SUITE_P(Catalog, GatheredContract, ::testing::ValuesIn(names(true)), name_of);
INSTANTIATE_TEST_SUITE_P(Catalog, SummedContract, ::testing::ValuesIn(names(false)), name_of);

TEST_P(CompressorContract, DecodesIntoASumWithAWeight) {
  for_each_case([&] {
    const at::Tensor x = gaussian(5'000, 5).reshape({50, 100});
    const Bytes payload = encode(x);
    const at::Tensor y = decoded(*compressor_, payload, x, round_);
    at::Tensor sum = at::ones_like(x);
    ASSERT_TRUE(compressor_->decode_add(payload, last_pass(*compressor_, round_), -0.25F, sum));
    EXPECT_TRUE(at::allclose(sum, 1 + y * -0.25F, 1e-5, 1e-6));
    EXPECT_TRUE(same_bits(y, decoded(*compressor_, payload, x, round_))) << "decoding changes nothing";
  });
}

/// All that a round gives: the last payload and the decoded tensor, as bytes.
Bytes outcome(const Case& it, const at::Tensor& x, const Round& round) {
  const auto compressor = it.make();
  Bytes all = encoded(*compressor, x, round);
  const at::Tensor y = decoded(*compressor, all, x, round);
  const auto floats = std::as_bytes(std::span(y.data_ptr<float>(), static_cast<std::size_t>(y.numel())));
  all.insert(all.end(), floats.begin(), floats.end());
  return all;
}

TEST_P(CompressorContract, IsAFunctionOfTensorAndRound) {
  for_each_case([&] {
    const at::Tensor x = gaussian(9'000, 6).reshape({90, 100});
    const Bytes expected = outcome(case_, x, round_);
    std::vector<Bytes> others(3);
    std::vector<std::thread> threads;
    for (Bytes& other : others) threads.emplace_back([&] { other = outcome(case_, x, round_); });
    for (std::thread& thread : threads) thread.join();
    for (const Bytes& other : others) EXPECT_EQ(other, expected);
    const KernelsUpTo portable(Kernels::portable);
    EXPECT_EQ(outcome(case_, x, round_), expected) << "the portable loops";
  });
}

TEST_P(CompressorContract, LeavesNoTraceUnlessStateful) {
  for_each_case([&] {
    if (compressor_->traits().stateful) return;
    const at::Tensor x = gaussian(9'000, 6).reshape({90, 100});
    const Bytes expected = encode(x);
    encode(heavy_tailed(30'000, 7));
    EXPECT_EQ(encode(x), expected);
    EXPECT_TRUE(compressor_->save().empty());
  });
}

TEST_P(CompressorContract, WritesEveryByteOfItsPayload) {
  for_each_case([&] {
    const at::Tensor x = gaussian(9'000, 6).reshape({90, 100});
    const Bytes expected = encode_fresh(x);
    for (const auto held : {std::byte{0x00}, std::byte{0xFF}}) {
      EXPECT_EQ(encoded(*case_.make(), x, round_, Bytes(1 << 17, held)), expected) << "memory that held other bytes";
    }
  });
}

TEST_P(CompressorContract, DoesNotDependOnTheNumberOfThreads) {
  const int before = at::get_num_threads();
  // As many entries as three threads share, in a shape that is no matrix and in one that is.
  const at::Tensor values = gaussian(353 * 401, 6);
  for_each_case([&] {
    for (const at::Tensor& x : {values, values.reshape({353, 401})}) {
      at::set_num_threads(1);
      const Bytes one = outcome(case_, x, round_);
      at::set_num_threads(3);
      const Bytes three = outcome(case_, x, round_);
      at::set_num_threads(before);
      EXPECT_TRUE(one == three) << x.sizes();
    }
  });
}

TEST_P(CompressorContract, Appends) {
  for_each_case([&] {
    const at::Tensor x = gaussian(700, 8);
    const Round round = round_;
    Bytes plain;
    ASSERT_TRUE(case_.make()->encode(x, round, plain));
    Bytes out = {std::byte{1}, std::byte{2}};
    ASSERT_TRUE(compressor_->encode(x, round, out));
    EXPECT_EQ(out[1], std::byte{2});
    EXPECT_TRUE(std::ranges::equal(BytesView(out).subspan(2), plain));
  });
}

TEST_P(GatheredContract, PayloadsCanBeCutApart) {
  for_each_case([&] {
    const Bytes first = encode(gaussian(700, 8));
    const Bytes second = encode(gaussian(3, 9));
    Bytes stream = first;
    stream.insert(stream.end(), second.begin(), second.end());
    BytesView rest = stream;
    EXPECT_TRUE(std::ranges::equal(take_payload(rest).value(), first));
    EXPECT_TRUE(std::ranges::equal(take_payload(rest).value(), second));
    EXPECT_TRUE(rest.empty());
  });
}

TEST_P(CompressorContract, TakesUnusualTensors) {
  for_each_case([&] {
    const std::vector<at::Tensor> unusual = {
        at::empty({0}, at::kFloat),
        at::empty({0, 3}, at::kFloat),
        at::full({}, 2.5F),
        at::full({1}, -0.5F),
        at::full({1, 1}, 1e-3F),
        at::zeros({1000}),
        at::zeros({40, 25}),
        at::full({4096}, -3.0F),
        at::full({64, 64}, 1e-30F),
        at::full({4096}, std::numeric_limits<float>::denorm_min()),
        at::full({50, 50}, std::numeric_limits<float>::denorm_min()),
        at::full({4096}, std::numeric_limits<float>::max()),
        at::full({64, 64}, -std::numeric_limits<float>::max()),
        at::cat({at::zeros({100'000}), at::ones({1})}),
        gaussian(2 * 3 * 5 * 7, 2).reshape({2, 3, 5, 7}),
        gaussian(90, 3).reshape({1, 90}),
        gaussian(90, 3).reshape({90, 1}),
    };
    for (const at::Tensor& x : unusual) {
      const at::Tensor y = round_trip(x, round_);
      EXPECT_TRUE(at::isfinite(y).all().item<bool>()) << x.sizes();
      EXPECT_TRUE(!compressor_->traits().lossless || at::equal(x, y)) << x.sizes();
      // One draw may err by more than the expectation, and the smallest and largest floats by their rounding; nothing
      // decodes to more than a tensor of its size can hold.
      const double bound = compressor_->error_bound(static_cast<std::uint64_t>(x.numel()), round_);
      if (compressor_->traits().biased && std::isfinite(bound) && bound <= 1) {
        EXPECT_LE(std::sqrt(squared_norm(x - y)), 1.01 * std::sqrt(squared_norm(x))) << x.sizes();
      }
    }
  });
}

TEST_P(CompressorContract, ConvertsOtherLayoutsAndFloats) {
  for_each_case([&] {
    const at::Tensor x = gaussian(60 * 70, 10).reshape({60, 70});
    EXPECT_EQ(encode(x.t()), encode(x.t().contiguous()));
    EXPECT_EQ(encode(x.to(at::kDouble)), encode(x));
    EXPECT_EQ(encode(x.to(at::kHalf)), encode(x.to(at::kHalf).to(at::kFloat)));
    EXPECT_EQ(encode(x.to(at::kBFloat16)), encode(x.to(at::kBFloat16).to(at::kFloat)));
    Bytes out;
    EXPECT_EQ(compressor_->encode(at::ones({4}, at::kLong), round_, out).error().code, Errc::invalid_argument);
    EXPECT_EQ(compressor_->encode(at::Tensor(), round_, out).error().code, Errc::invalid_argument);
  });
}

/// The passes of a round until one refuses.
Result<void> encode_all(Compressor& compressor, const at::Tensor& x, Round round, Bytes& out) {
  const auto passes = compressor.traits().passes.size();
  for (round.pass = 0; round.pass < passes; ++round.pass) {
    Bytes own;
    if (auto encoded = compressor.encode(x, round, round.pass + 1 == passes ? out : own); !encoded) return encoded;
    const BytesView result = round.pass + 1 == passes ? out : own;
    if (auto taken = compressor.absorb(std::span(&result, 1), round); !taken) return taken;
  }
  return {};
}

TEST_P(CompressorContract, RefusesWhatIsNotFiniteAndNamesTheEntry) {
  for_each_case([&] {
    for (const float bad : {std::nanf(""), -std::nanf(""), INFINITY, -INFINITY}) {
      for (const std::int64_t entries : {1, 500, 40'000}) {
        for (const std::int64_t at : {std::int64_t{0}, entries / 3, entries - 1}) {
          at::Tensor x = gaussian(entries, 11);
          x.data_ptr<float>()[at] = bad;
          if (entries > 1) x = x.reshape({entries / 20, 20});
          Bytes out = {std::byte{7}};
          const auto refused = encode_all(*compressor_, x, round_at(5, 12), out);
          if (refused && compressor_->traits().selective) {
            x.view({-1})[at] = 0;
            Bytes without = {std::byte{7}};
            ASSERT_TRUE(encode_all(*compressor_, x, round_at(5, 12), without));
            ASSERT_EQ(out, without) << "what is not noticed is not sent either";
            continue;
          }
          ASSERT_FALSE(refused) << bad << " at " << at << " of " << entries;
          EXPECT_EQ(refused.error().code, Errc::invalid_argument);
          EXPECT_THAT(refused.error().context, HasSubstr("entry " + std::to_string(at)));
          EXPECT_EQ(out, Bytes{std::byte{7}});
        }
      }
    }
    Bytes out;
    EXPECT_FALSE(encode_all(*compressor_, at::full({10'000}, NAN), round_, out));
  });
}

TEST_P(CompressorContract, RefusesDestinationsItCannotAddTo) {
  for_each_case([&] {
    const at::Tensor x = gaussian(36, 12).reshape({6, 6});
    const Bytes payload = encode(x);
    const auto code_for = [&](at::Tensor sum) {
      const auto done = compressor_->decode_add(payload, last_pass(*compressor_, round_), 1, sum);
      return done ? boost::system::error_code() : done.error().code;
    };
    EXPECT_EQ(code_for(at::zeros({6, 6}).t()), Errc::invalid_argument);
    EXPECT_EQ(code_for(at::zeros({6, 7}).slice(1, 0, 6)), Errc::invalid_argument);
    EXPECT_EQ(code_for(at::zeros({6, 6}, at::kDouble)), Errc::invalid_argument);
    EXPECT_EQ(code_for(at::Tensor()), Errc::invalid_argument);
    EXPECT_EQ(code_for(at::zeros({37})), Errc::malformed);
    EXPECT_EQ(code_for(at::zeros({0})), Errc::malformed);
  });
}

TEST_P(CompressorContract, SurvivesTruncationAtEveryByte) {
  for_each_case([&] {
    const at::Tensor x = gaussian(300, 13).reshape({15, 20});
    const Bytes payload = encode(x);
    for (std::size_t size = 0; size < payload.size(); ++size) {
      const Bytes cut(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(size));
      at::Tensor sum = at::zeros_like(x);
      const auto refused = compressor_->decode_add(cut, last_pass(*compressor_, round_), 1, sum);
      ASSERT_FALSE(refused) << size;
      EXPECT_EQ(refused.error().code, Errc::malformed);
    }
  });
}

/// Results of a pass that no rank would have sent.
TEST_P(CompressorContract, SurvivesHostileResultsOfEveryPass) {
  for_each_case([&] {
    const auto passes = compressor_->traits().passes;
    const at::Tensor x = gaussian(300, 13).reshape({15, 20});
    for (std::uint32_t hostile = 0; hostile < passes.size(); ++hostile) {
      compressor_ = case_.make();
      Round round = round_;
      Bytes out;
      for (round.pass = 0; round.pass <= hostile; ++round.pass) {
        out.clear();
        compressor_->encode(x, round, out).value();
        const BytesView result = out;
        if (round.pass < hostile) compressor_->absorb(std::span(&result, 1), round).value();
      }
      round.pass = hostile;
      for (std::size_t size = 0; size < out.size(); ++size) {
        const BytesView cut = BytesView(out).first(size);
        const auto taken = compressor_->absorb(std::span(&cut, 1), round);
        EXPECT_TRUE(taken || taken.error().code == Errc::malformed) << "pass " << hostile << " cut to " << size;
        EXPECT_TRUE(!taken || hostile + 1 == passes.size()) << "a cut result is needed by the next pass";
      }
      for (const unsigned fill : {0x00U, 0x7FU, 0xFFU}) {
        const Bytes filled(out.size(), static_cast<std::byte>(fill));
        const BytesView result = filled;
        (void)compressor_->absorb(std::span(&result, 1), round);
      }
      (void)compressor_->absorb({}, round);
      const BytesView result = out;
      EXPECT_TRUE(compressor_->absorb(std::span(&result, 1), round)) << "it goes on";
    }
  });
}

/// Decodes `payload` and checks only that it is refused or decoded; the sanitizers and the bounds of `sum`
/// see the rest.
void decode_hostile(Compressor& compressor, BytesView payload, const at::Tensor& like) {
  const Round round = last_pass(compressor, round_at(3));
  at::Tensor sum = at::zeros_like(like);
  const auto done = compressor.decode_add(payload, round, 1, sum);
  EXPECT_TRUE(done || done.error().code == Errc::malformed || done.error().code == Errc::unsupported);
  const auto positions = positions_in(compressor, payload, round, static_cast<std::uint64_t>(like.numel()));
  if (!positions) return;
  for (const std::uint32_t position : *positions) EXPECT_LT(position, like.numel());
}

TEST_P(CompressorContract, SurvivesMutations) {
  for_each_case([&] {
    const at::Tensor x = gaussian(300, 14).reshape({15, 20});
    const Bytes payload = encode(x);
    const std::size_t step = payload.size() / 400 + 1;
    for (std::size_t at = 0; at < payload.size(); at += step) {
      for (const unsigned flip : {0x01U, 0x80U, 0xFFU, 0x55U}) {
        Bytes hostile = payload;
        hostile[at] ^= static_cast<std::byte>(flip);
        decode_hostile(*compressor_, hostile, x);
      }
    }
  });
}

TEST_P(GatheredContract, NoticesEveryChangedByte) {
  for_each_case([&] {
    if (compressor_->traits().passes.back() != Reduction::gather) return;
    const at::Tensor x = gaussian(300, 14).reshape({15, 20});
    const Bytes payload = encode(x);
    for (std::size_t at = 0; at < payload.size(); ++at) {
      Bytes hostile = payload;
      hostile[at] ^= std::byte{0x10};
      at::Tensor sum = at::zeros_like(x);
      EXPECT_FALSE(compressor_->decode_add(hostile, last_pass(*compressor_, round_), 1, sum)) << "byte " << at;
    }
  });
}

TEST_P(GatheredContract, SurvivesMutationsUnderAGoodChecksum) {
  for_each_case([&] {
    if (compressor_->traits().passes.back() != Reduction::gather) return;
    const at::Tensor x = gaussian(300, 15).reshape({15, 20});
    const Bytes payload = encode(x);
    const BytesView body = open_payload(payload, static_cast<Format>(payload[1])).value();
    const std::size_t step = body.size() / 200 + 1;
    for (std::size_t at = 0; at < body.size(); at += at < 16 ? 1 : step) {
      for (unsigned value = 0; value < 256; value += at < 16 ? 1 : 51) {
        Bytes hostile;
        PayloadWriter writer(hostile, static_cast<Format>(payload[1]), body.size());
        std::ranges::copy(body, writer.body().begin());
        writer.body()[at] = static_cast<std::byte>(value);
        writer.seal();
        decode_hostile(*compressor_, hostile, x);
      }
    }
  });
}

TEST_P(CompressorContract, KeepsTheEntriesThatItHasEncoded) {
  for_each_case([&] {
    if (!compressor_->traits().sparse) return;
    const at::Tensor x = gaussian(4'000, 17).reshape({40, 100});
    (void)encode(x);  // all passes, so that the last can be repeated
    const Round round = last_pass(*compressor_, round_);
    Bytes payload;
    Selection own;
    Selection read;
    ASSERT_TRUE(compressor_->encode(x, round, payload, &own));
    ASSERT_TRUE(compressor_->read_entries(payload, round, 4'000, read));
    const auto sorted = [](const Selection& entries) {
      std::map<std::uint32_t, std::uint32_t> bits;
      for (std::size_t i = 0; i < entries.size(); ++i) {
        bits[entries.positions[i]] = std::bit_cast<std::uint32_t>(entries.values[i]);
      }
      return bits;
    };
    EXPECT_EQ(sorted(own), sorted(read));
  });
}

TEST_P(CompressorContract, SaysWhichEntriesItSent) {
  for_each_case([&] {
    const at::Tensor x = gaussian(4'000, 16).reshape({40, 100});
    const Bytes payload = encode(x);
    const Round round = last_pass(*compressor_, round_);
    Selection entries;
    const auto read = compressor_->read_entries(payload, round, 4'000, entries);
    if (!compressor_->traits().sparse) {
      EXPECT_EQ(read.error().code, Errc::unsupported);
      return;
    }
    ASSERT_TRUE(read);
    EXPECT_GT(entries.size(), 0U);
    EXPECT_TRUE(std::ranges::is_sorted(entries.positions, std::ranges::less_equal())) << "each once, in order";
    at::Tensor sum = at::zeros_like(x);
    add_selection(1, entries, flat(sum));
    EXPECT_TRUE(same_bits(sum, decoded(*compressor_, payload, x, round_))) << "all that is decoded is there";
    EXPECT_EQ(compressor_->read_entries(payload, round, 4'001, entries).error().code, Errc::malformed);
  });
}

TEST_P(CompressorContract, ChoosesTheEntriesThatItEncodes) {
  for_each_case([&] {
    const Traits traits = compressor_->traits();
    const at::Tensor x = gaussian(4'000, 16).reshape({40, 100});
    Selection chosen;
    if (!traits.selects) {
      EXPECT_EQ(compressor_->select_entries(x, round_, chosen).error().code, Errc::unsupported);
      EXPECT_FALSE(compressor_->read_part({}, 100, chosen));
      return;
    }
    EXPECT_TRUE(traits.sparse && !traits.votes && traits.passes == Passes{Reduction::gather});
    const Bytes payload = encode(x);
    Selection read;
    ASSERT_TRUE(compressor_->read_entries(payload, round_, 4'000, read));
    ASSERT_TRUE(case_.make()->select_entries(x, round_, chosen));
    std::ranges::sort(read.positions);
    EXPECT_EQ(chosen.positions, read.positions);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      EXPECT_EQ(chosen.values[i], flat(x)[chosen.positions[i]]) << "not rounded";
    }
    ASSERT_TRUE(compressor_->select_entries(at::zeros({0, 5}), round_, chosen));
    EXPECT_EQ(chosen.size(), 0U);
    at::Tensor bad = x.clone();
    bad.data_ptr<float>()[7] = std::numeric_limits<float>::quiet_NaN();
    if (!traits.selective) {
      EXPECT_EQ(compressor_->select_entries(bad, round_, chosen).error().code, Errc::invalid_argument);
    }
  });
}

TEST_P(CompressorContract, WritesEntriesOfAPartAndSaysWhatOthersReadOfThem) {
  for_each_case([&] {
    if (!compressor_->traits().selects) return;
    Selection chosen;
    ASSERT_TRUE(compressor_->select_entries(gaussian(4'000, 16), round_, chosen));
    for (const std::uint32_t first : {0U, 1'500U, 3'999U, 4'000U}) {
      const std::uint32_t entries = 4'000 - first;
      Selection part;
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (chosen.positions[i] < first) continue;
        part.positions.push_back(chosen.positions[i] - first);
        part.values.push_back(chosen.values[i]);
      }
      const Selection exact = part;
      Bytes out(3);
      compressor_->write_part(part, entries, out);
      const BytesView payload = BytesView(out).subspan(3);
      Selection read;
      ASSERT_TRUE(case_.make()->read_part(payload, entries, read));
      EXPECT_EQ(part.positions, exact.positions);
      EXPECT_EQ(read.positions, exact.positions) << "in order";
      EXPECT_EQ(read.values, part.values);
      double lost = 0;
      double all = 0;
      for (std::size_t i = 0; i < part.size(); ++i) {
        lost += std::pow(part.values[i] - exact.values[i], 2);
        all += std::pow(exact.values[i], 2);
      }
      EXPECT_LE(lost, all);
      EXPECT_EQ(case_.make()->read_part(payload, entries + 1, read).error().code, Errc::malformed);
    }
  });
}

at::Tensor numbers(Bytes& bytes, Reduction reduction) {
  const at::ScalarType type = reduction == Reduction::sum        ? at::kFloat
                              : reduction == Reduction::sum_fp16 ? at::kHalf
                                                                 : at::kBFloat16;
  const auto count = static_cast<std::int64_t>(bytes.size() / at::elementSize(type));
  return at::from_blob(bytes.data(), {count}, type);
}

/// Two ranks: the sum of the payloads decodes to the sum of what each of them decodes to.
TEST_P(SummedContract, SumsOnTheWire) {
  for_each_case([&] {
    const auto passes = compressor_->traits().passes;
    if (passes.back() == Reduction::gather) return;
    const std::vector<at::Tensor> xs = {gaussian(1'000, 17).reshape({25, 40}), gaussian(1'000, 18).reshape({25, 40})};
    std::vector<std::unique_ptr<Compressor>> ranks;
    for (std::size_t rank = 0; rank < xs.size(); ++rank) ranks.push_back(case_.make());
    Round round = round_;
    round.world = 2;
    std::vector<Bytes> payloads(xs.size());
    Bytes sum;
    for (round.pass = 0; round.pass < passes.size(); ++round.pass) {
      for (std::size_t rank = 0; rank < xs.size(); ++rank) {
        payloads[rank].clear();
        round.rank = static_cast<std::uint32_t>(rank);
        ranks[rank]->encode(xs[rank], round, payloads[rank]).value();
      }
      ASSERT_EQ(payloads[0].size(), payloads[1].size());
      sum = payloads[0];
      numbers(sum, passes[round.pass]).add_(numbers(payloads[1], passes[round.pass]));
      const BytesView result = sum;
      for (const auto& rank : ranks) rank->absorb(std::span(&result, 1), round).value();
    }
    const at::Tensor together = decoded(*ranks[0], sum, xs[0], round);
    EXPECT_TRUE(same_bits(together, decoded(*ranks[1], sum, xs[0], round))) << "replicas do not drift";
    const double precision = passes.back() == Reduction::sum ? 1e-4 : 1e-2;
    EXPECT_TRUE(at::allclose(
        together, decoded(*ranks[0], payloads[0], xs[0], round) + decoded(*ranks[1], payloads[1], xs[1], round),
        precision, precision));
  });
}

TEST_P(CompressorContract, StateGoesOnBitForBitAfterARestore) {
  for_each_case([&] {
    const auto first = case_.make();
    for (std::uint64_t step = 0; step < 12; ++step)
      encoded(*first, gaussian(1'200, step).reshape({20, 60}), round_at(step));
    const auto second = case_.make();
    encoded(*second, gaussian(1'200, 77).reshape({20, 60}), round_at(9));  // state that the restore has to replace
    std::vector<NamedTensor> state;
    for (const NamedTensor& it : first->save()) state.push_back({it.name, it.tensor.clone()});
    EXPECT_EQ(!state.empty(), first->traits().stateful);
    ASSERT_TRUE(second->restore(state));
    for (std::uint64_t step = 12; step < 24; ++step) {
      const at::Tensor x = gaussian(1'200, step).reshape({20, 60});
      const Bytes left = encoded(*first, x, round_at(step));
      const Bytes right = encoded(*second, x, round_at(step));
      EXPECT_EQ(left, right);
      EXPECT_TRUE(same_bits(decoded(*first, left, x, round_at(step)), decoded(*second, right, x, round_at(step))));
    }
    const std::vector<NamedTensor> foreign = {{"nobody's", at::zeros({2})}};
    EXPECT_EQ(second->restore(foreign).error().code, Errc::malformed);
  });
}

}  // namespace
}  // namespace weir::compressors::test
