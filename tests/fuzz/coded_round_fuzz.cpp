// What a rank may send of the tensors of a bucket: all of them in one message, to everybody, to the owners of shares or
// of regions, to a partner in a hop, and from owners back.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/ensure.hpp"
#include "compressors/catalog.hpp"
#include "compressors/flat.hpp"
#include "message_input.hpp"
#include "training/exchange/gathering_round.hpp"
#include "training/exchange/hops_round.hpp"
#include "training/exchange/owners_round.hpp"
#include "training/exchange/split_round.hpp"

namespace {

namespace compressors = weir::compressors;

using nlohmann::json;
using weir::append;
using weir::Bytes;
using weir::BytesView;
using weir::ensure;
using weir::Result;
using weir::training::Bucket;
using weir::training::CodedRound;
using weir::training::GatheredMean;
using weir::training::GatheringRound;
using weir::training::HopsRound;
using weir::training::Mean;
using weir::training::NamedTensor;
using weir::training::OwnersRound;
using weir::training::RoundSetting;
using weir::training::SplitRound;

constexpr std::uint32_t ranks = 2;

enum class Way : std::uint8_t { to_all, to_owners, to_regions, by_hops };

struct Case {
  Way way = Way::to_all;
  const char* compressor = "";
  json params;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    const json some = {{"ratio", 0.3}};
    const json defaults = json::object();
    std::vector<Case> made;
    made.push_back({Way::to_all, "topk", some});
    made.push_back({Way::to_all, "qsgd", defaults});
    made.push_back({Way::to_owners, "topk", some});
    made.push_back({Way::to_owners, "qsgd", defaults});
    made.push_back({Way::to_regions, "topk", some});
    made.push_back({Way::by_hops, "qsgd", defaults});
    return made;
  }();
  return all;
}

compressors::Compression compression_of(const Case& of) {
  static const json none;
  return compressors::builtin()
      .make({.compressor = of.compressor, .params = of.params, .memory = "", .memory_params = none, .setting = {}})
      .value();
}

std::vector<Mean> means_of(std::span<const NamedTensor> parameters) {
  std::vector<Mean> means;
  for (const NamedTensor& parameter : parameters) {
    means.push_back({.tensor = at::zeros(parameter.tensor.sizes()), .sparse = false, .positions = {}});
  }
  return means;
}

Bytes copy_of(BytesView bytes) {
  Bytes copy;
  append(copy, bytes);
  return copy;
}

/// One of the ranks, which goes through one round of a bucket.
class Rank {
 public:
  Rank(const Case& of, std::uint32_t number)
      : compression_(compression_of(of)),
        means_(means_of(parameters_)),
        setting_{.parameters = parameters_,
                 .values = {},
                 .means = means_,
                 .compression = compression_,
                 .gathered_mean = gathered_mean_,
                 .seed = 5,
                 .ranks = ranks,
                 .rank = number,
                 .world = ranks,
                 .owners = of.way == Way::to_all ? 0U : ranks,
                 .regions = of.way == Way::to_regions,
                 .hops = of.way == Way::by_hops},
        round_(round_of(of.way)) {
    for (const NamedTensor& parameter : parameters_) {
      at::Tensor gradient = at::empty(parameter.tensor.sizes(), at::kFloat);
      compressors::fuzz::fill(compressors::flat(gradient), number);
      gradients_.push_back(std::move(gradient));
    }
    round_->begin({.number = 3, .epoch = 1000}, bucket_.parameters, /*there=*/false);
    round_->encode(0, gradients_).value();
  }

  CodedRound& round() { return *round_; }
  std::span<const Mean> means() const { return means_; }

  /// What it sends first.
  Bytes first_message() {
    if (round_->by_hops()) return copy_of(round_->hop_payload());
    return copy_of(round_->by_owners() ? round_->outgoing()[other()] : round_->payload());
  }
  /// Takes what the other rank sends first.
  Result<void> take_first(const Bytes& message) {
    if (!round_->by_owners()) {
      receive(round_->gathered(), round_->payload(), message);
      return round_->decode(0);
    }
    receive(round_->incoming(), {}, message);
    return round_->by_hops() ? round_->add_hop(0) : round_->combine();
  }
  /// Takes what the other rank sends back.
  Result<void> take_back(const Bytes& message) {
    receive(round_->gathered(), round_->combined(), message);
    return round_->decode(0);
  }

 private:
  std::unique_ptr<CodedRound> round_of(Way way) {
    constexpr std::uint32_t first_piece = 2;
    if (way == Way::to_owners) return std::make_unique<OwnersRound>(setting_, bucket_, ranks, first_piece);
    if (way == Way::to_regions) return std::make_unique<SplitRound>(setting_, bucket_);
    if (way == Way::by_hops) return std::make_unique<HopsRound>(setting_, bucket_, first_piece);
    return std::make_unique<GatheringRound>(setting_, bucket_);
  }
  std::uint32_t other() const { return 1 - setting_.rank; }
  void receive(weir::collectives::Gathered& into, BytesView own, const Bytes& message) {
    into.payloads.resize(ranks);
    into.payloads[setting_.rank] = copy_of(own);
    into.payloads[other()] = message;
  }

  std::vector<NamedTensor> parameters_{{"wide", at::zeros({6, 8})}, {"narrow", at::zeros({5, 4})}};
  compressors::Compression compression_;
  std::vector<Mean> means_;
  GatheredMean gathered_mean_;
  Bucket bucket_{.parameters = {0, 1}, .coded = true};
  RoundSetting setting_;
  std::unique_ptr<CodedRound> round_;
  std::vector<at::Tensor> gradients_;
};

/// All entries of a sparse mean are zero but those at its positions.
void check_means(const Rank& rank) {
  for (const Mean& mean : rank.means()) {
    const auto values = compressors::flat(mean.tensor);
    std::vector<bool> may_be_set(values.size(), !mean.sparse);
    for (const std::uint32_t position : mean.positions) {
      ensure(position < values.size(), "a position outside of the tensor");
      may_be_set[position] = true;
    }
    for (std::size_t i = 0; i < values.size(); ++i) ensure(may_be_set[i] || values[i] == 0, "no position says so");
  }
}

/// A round in which the other rank sends what the input says in the place of one of its messages, the first or what it
/// sends back.
void exchange(const Case& of, bool sends_back, BytesView input) {
  Rank own(of, 0);
  Rank other(of, 1);
  const std::size_t bytes_max = own.round().gathered().bytes_max;
  const Bytes own_first = own.first_message();
  const Bytes honest_first = other.first_message();
  const bool goes_back = own.round().by_owners();
  const Bytes first = goes_back && sends_back ? honest_first : compressors::fuzz::message_of(input, honest_first);
  if (first.size() > bytes_max) return;  // it does not come here
  const auto first_taken = own.take_first(first);
  compressors::fuzz::expect_fits(first_taken, first, honest_first);
  if (!first_taken) return;
  if (!goes_back) return check_means(own);

  if (!own.round().encode_combined()) return;  // sums of large numbers may be none
  other.take_first(own_first).value();
  other.round().encode_combined().value();
  const Bytes honest_back = copy_of(other.round().combined());
  const Bytes back = sends_back ? compressors::fuzz::message_of(input, honest_back) : honest_back;
  if (back.size() > bytes_max) return;
  const auto back_taken = own.take_back(back);
  // After another first message the ranks may have other counts.
  if (sends_back) compressors::fuzz::expect_fits(back_taken, back, honest_back);
  if (back_taken) check_means(own);
}

}  // namespace

/// Byte 0 chooses how the payloads travel, and by its high bit which message is the input's (message_input.hpp).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const BytesView input = std::as_bytes(std::span(data + 1, size - 1));
  exchange(cases()[(data[0] & 0x7F) % cases().size()], (data[0] & 0x80) != 0, input);
  return 0;
}
