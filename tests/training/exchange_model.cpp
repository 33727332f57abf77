#include "exchange_model.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "collectives/topologies/catalog.hpp"
#include "collectives/transports/in_process.hpp"

namespace weir::training::testing {

using collectives::Gathers;
using compressors::Reduction;
using compressors::Round;

void Sent::add_to(at::Tensor& tensor, float weight) const {
  for (const auto& part : parts) {
    at::Tensor rows = tensor.narrow(0, part.first, part.count);
    compressor.decode_add(part.payload, part.round, weight, rows).value();
  }
  if (all.defined()) tensor.add_(all, weight);
  for (const auto& list : {entries, corrections}) {
    for (const auto& [at, value] : list) tensor.view(-1)[at] += weight * value;
  }
}

at::Tensor Sent::mask(const at::Tensor& like) const {
  at::Tensor mask = at::zeros(like.sizes());
  for (const auto& part : parts) {
    at::Tensor rows = mask.narrow(0, part.first, part.count).view(-1);
    compressors::Selection read;
    compressor.read_entries(part.payload, part.round, static_cast<std::uint64_t>(rows.numel()), read).value();
    for (const auto position : read.positions) rows[position] = 1;
  }
  for (const auto& entry : entries) mask.view(-1)[entry.at] = 1;
  return mask;
}

namespace {

/// A tensor of the model's for each of the exchange's; zeros at first.
class Kept {
 public:
  at::Tensor& of(const Round& round, const at::Tensor& like) {
    at::Tensor& tensor = tensors_[round.tensor];
    if (!tensor.defined()) tensor = at::zeros_like(like);
    return tensor;
  }
  bool has(const Round& round) const { return tensors_.contains(round.tensor); }
  /// Makes the tensor zero, if there is one.
  void clear(const Round& round) {
    if (has(round)) tensors_[round.tensor].zero_();
  }

 private:
  std::map<std::uint32_t, at::Tensor> tensors_;
};

class NoMemoryModel final : public MemoryModel {
 public:
  at::Tensor compensate(const at::Tensor& gradient, const Round&) override { return gradient; }
  void update(const Sent&, at::Tensor&) override {}
};

class ResidualModel final : public MemoryModel {
 public:
  explicit ResidualModel(const nlohmann::json& params) : beta_(params.at("beta")), gamma_(params.at("gamma")) {}
  at::Tensor compensate(const at::Tensor& gradient, const Round& round) override {
    at::Tensor& r = residuals_.of(round, gradient);
    return r = r * beta_ + gradient * gamma_;
  }
  void update(const Sent& sent, at::Tensor& mean) override { sent.add_to(residuals_.of(sent.round, mean), -1); }
  void average_dense(at::Tensor&, const Round& round) override { residuals_.clear(round); }

 private:
  float beta_, gamma_;
  Kept residuals_;
};

class DgcModel final : public MemoryModel {
 public:
  DgcModel(const nlohmann::json& params, const compressors::MemorySetting& setting)
      : masking_(params.value("momentum_masking", true)),
        clip_norm_(params.at("clip_norm")),
        mu_(static_cast<float>(setting.momentum)),
        nesterov_(setting.nesterov) {}
  at::Tensor compensate(const at::Tensor& gradient, const Round& round) override {
    at::Tensor& v = velocities_.of(round, gradient);
    return v = v + momentum(gradient, round, clip_norm_ * std::sqrt(round.world));
  }
  void update(const Sent& sent, at::Tensor& mean) override {
    sent.add_to(velocities_.of(sent.round, mean), -1);
    if (masking_) momenta_.of(sent.round, mean).masked_fill_(sent.mask(mean) == 1, 0);
  }
  /// Until something was sent sparse, dense rounds are those of plain momentum after averaging. Later they send all of
  /// the velocity.
  at::Tensor compensate_dense(const at::Tensor& gradient, const Round& round) override {
    return velocities_.has(round) ? compensate(gradient, round) : gradient;
  }
  void average_dense(at::Tensor& mean, const Round& round) override {
    if (velocities_.has(round))
      velocities_.clear(round);
    else
      mean.copy_(momentum(mean, round, clip_norm_));
  }

 private:
  at::Tensor momentum(const at::Tensor& gradient, const Round& round, double limit) {
    const double norm = gradient.to(at::kDouble).norm().item<double>();
    const at::Tensor g = gradient * (norm > limit ? static_cast<float>(limit / norm) : 1.0F);
    at::Tensor& m = momenta_.of(round, gradient);
    m = nesterov_ ? (m + g) * mu_ : m * mu_ + g;
    return nesterov_ ? m + g : m;
  }

  bool masking_;
  double clip_norm_;
  float mu_;
  bool nesterov_;
  Kept momenta_, velocities_;
};

class EfSignSgdModel final : public MemoryModel {
 public:
  explicit EfSignSgdModel(const nlohmann::json& params) : beta_(params.at("beta")) {}
  at::Tensor compensate(const at::Tensor& gradient, const Round& round) override {
    const auto rate = static_cast<float>(round.learning_rate);
    if (rate == 0) return gradient;
    float& last = rates_.try_emplace(round.tensor, rate).first->second;
    at::Tensor& r = residuals_.of(round, gradient);
    r = r * (beta_ * (last / rate)) + gradient;
    last = rate;
    return r;
  }
  void update(const Sent& sent, at::Tensor& mean) override {
    if (sent.round.learning_rate > 0) sent.add_to(residuals_.of(sent.round, mean), -1);
  }
  void average_dense(at::Tensor&, const Round& round) override {
    if (round.learning_rate > 0) residuals_.clear(round);
  }

 private:
  float beta_;
  Kept residuals_;
  std::map<std::uint32_t, float> rates_;
};

class PowerSgdModel final : public MemoryModel {
 public:
  at::Tensor compensate(const at::Tensor& gradient, const Round& round) override {
    at::Tensor& r = residuals_.of(round, gradient);
    return r = r + gradient;
  }
  void update(const Sent& sent, at::Tensor& mean) override {
    at::Tensor& r = residuals_.of(sent.round, mean);
    r = r - mean;
  }
  void average_dense(at::Tensor&, const Round& round) override { residuals_.clear(round); }

 private:
  Kept residuals_;
};

class Ef21Model final : public MemoryModel {
 public:
  explicit Ef21Model(const nlohmann::json& params) : momentum_(params.at("momentum")) {}
  at::Tensor compensate(const at::Tensor& gradient, const Round& round) override {
    return average(gradient, round) - own_.of(round, gradient);
  }
  void update(const Sent& sent, at::Tensor& mean) override {
    sent.add_to(own_.of(sent.round, mean), 1);
    at::Tensor& shared = shared_.of(sent.round, mean);
    shared = shared + mean;
    mean = shared.clone();
  }
  at::Tensor compensate_dense(const at::Tensor& gradient, const Round& round) override {
    return own_.of(round, gradient) = average(gradient, round).clone();
  }
  void average_dense(at::Tensor& mean, const Round& round) override {
    if (own_.has(round))
      shared_.of(round, mean) = mean.clone();
    else
      mean = average(mean, round).clone();
  }

 private:
  at::Tensor average(const at::Tensor& gradient, const Round& round) {
    const bool first = !averages_.has(round);
    at::Tensor& v = averages_.of(round, gradient);
    return v = first ? gradient.clone() : v * momentum_ + gradient * (1 - momentum_);
  }

  float momentum_;
  Kept own_, shared_, averages_;
};

/// The sum of the ranks' arrays as a ring all-reduce adds it up. It cuts the array into as many chunks as there are
/// ranks, equal to within one number, and chunk c travels from rank c + 1 once around, taking up each rank's share.
at::Tensor ring_sum(const std::vector<at::Tensor>& shares) {
  const auto ranks = static_cast<std::int64_t>(shares.size());
  const std::int64_t numbers = shares[0].numel();
  std::vector<at::Tensor> chunks;
  for (std::int64_t c = 0, begin = 0; c < ranks; ++c) {
    const std::int64_t size = numbers / ranks + (c < numbers % ranks ? 1 : 0);
    at::Tensor sum = shares[(c + 1) % ranks].narrow(0, begin, size);
    for (std::int64_t i = 2; i <= ranks; ++i) sum = sum + shares[(c + i) % ranks].narrow(0, begin, size);
    chunks.push_back(sum);
    begin += size;
  }
  return at::cat(chunks);
}

at::Tensor numbers_in(Bytes& payload, Reduction reduction) {
  const at::ScalarType type = reduction == Reduction::sum_fp16   ? at::kHalf
                              : reduction == Reduction::sum_bf16 ? at::kBFloat16
                                                                 : at::kFloat;
  const auto count = static_cast<std::int64_t>(payload.size() / at::elementSize(type));
  return at::from_blob(payload.data(), {count}, type);
}

collectives::Element element_of(const at::Tensor& numbers) {
  if (numbers.scalar_type() == at::kHalf) return collectives::Element::float16;
  if (numbers.scalar_type() == at::kBFloat16) return collectives::Element::bfloat16;
  return collectives::Element::float32;
}

/// The sum of the ranks' arrays as a topology adds it up, between ranks that all run on this thread.
at::Tensor topology_sum(const collectives::TopologyChoice& topology, std::uint32_t ranks_per_host,
                        const std::vector<at::Tensor>& shares) {
  const auto size = static_cast<std::uint32_t>(shares.size());
  const auto network = collectives::InProcessNetwork::make(size, 1, {.ranks_per_host = ranks_per_host});
  std::vector<at::Tensor> sums;
  std::vector<std::unique_ptr<collectives::Communicator>> group;
  std::vector<std::unique_ptr<collectives::Collective>> collective;
  std::vector<collectives::Task<>> tasks;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    sums.push_back(shares[rank].clone());
    group.push_back(network->communicator(rank));
    collective.push_back(collectives::find_topology(topology.name)->make(*group.back(), topology));
    const std::span<std::byte> bytes(static_cast<std::byte*>(sums[rank].data_ptr()), sums[rank].nbytes());
    tasks.push_back(collective[rank]->all_reduce({bytes, element_of(sums[rank])}, collectives::ReduceOp::sum, {}));
  }
  for (auto& task : tasks) task.start();
  network->run_while_busy();
  for (auto& task : tasks) {
    if (!task.done() || !task.take_result()) throw std::runtime_error("a sum over " + topology.name + " has failed");
  }
  return sums[0];
}

}  // namespace

std::unique_ptr<MemoryModel> memory_model(const ExchangeCase& of) {
  if (of.memory == "none") return std::make_unique<NoMemoryModel>();
  if (of.memory == "residual") return std::make_unique<ResidualModel>(of.memory_params);
  if (of.memory == "dgc") return std::make_unique<DgcModel>(of.memory_params, of.setting);
  if (of.memory == "efsignsgd") return std::make_unique<EfSignSgdModel>(of.memory_params);
  if (of.memory == "powersgd") return std::make_unique<PowerSgdModel>();
  if (of.memory == "ef21") return std::make_unique<Ef21Model>(of.memory_params);
  throw std::invalid_argument("memory '" + of.memory + "' has no model in the exchange's contract");
}

ExchangeModel::ExchangeModel(const ExchangeCase& of, std::uint32_t ranks, std::span<const Bucket> buckets,
                             collectives::TopologyChoice topology, std::uint32_t ranks_per_host)
    : buckets_(buckets.begin(), buckets.end()),
      topology_(std::move(topology)),
      follows_learning_rate_(of.memory == "efsignsgd"),
      ranks_per_host_(ranks_per_host) {
  const bool gathered = of.make().compressor->traits().passes.back() == Reduction::gather;
  if (topology_.name == "hierarchical" && ranks_per_host > 1) {
    const std::uint32_t hosts = (ranks + ranks_per_host - 1) / ranks_per_host;
    hosts_ = std::make_unique<ExchangeModel>(of, hosts, buckets, collectives::TopologyChoice{.name = "binary_blocks"});
  }
  const auto gathers = gathered ? collectives::find_topology(topology_.name)->gathers : Gathers::all;
  splits_ = gathers == Gathers::regions;
  hops_ = gathers == Gathers::partners;
  if (hops_ || gathers == Gathers::owners) owners_ = topology_.servers > 0 ? std::min(ranks, topology_.servers) : ranks;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) ranks_.push_back({of.make().compressor, memory_model(of)});
}

at::Tensor ExchangeModel::sum_of(const std::vector<at::Tensor>& shares) const {
  return topology_.name == "ring" ? ring_sum(shares) : topology_sum(topology_, ranks_per_host_, shares);
}

Bytes ExchangeModel::reduced(std::vector<Bytes>& payloads, Reduction reduction) const {
  std::vector<at::Tensor> shares;
  for (Bytes& payload : payloads) shares.push_back(numbers_in(payload, reduction));
  const at::Tensor result = reduction == Reduction::max ? std::get<0>(at::stack(shares).max(0)) : sum_of(shares);
  const auto* bytes = static_cast<const std::byte*>(result.data_ptr());
  return Bytes(bytes, bytes + result.nbytes());
}

Round ExchangeModel::round_of(Round round, std::size_t rank, std::uint32_t tensor, std::size_t pass) const {
  round.rank = static_cast<std::uint32_t>(rank);
  round.world = static_cast<std::uint32_t>(ranks_.size());
  round.tensor = tensor;
  round.pass = static_cast<std::uint32_t>(pass);
  round.by_owners = owners_ > 0 || splits_;
  return round;
}

std::vector<Tensors> ExchangeModel::step(const Round& round, const std::vector<Tensors>& gradients,
                                         const std::vector<float>& votes) {
  std::vector<Tensors> means(ranks_.size(), Tensors(gradients[0].size()));
  if (hosts_) by_hosts(round, gradients, means);
  auto next_share = static_cast<std::uint32_t>(gradients[0].size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    const auto shares = shares_of(bucket, gradients[0], next_share);
    for (const auto& [tensor, list] : shares) next_share += static_cast<std::uint32_t>(list.size());
    if (!bucket.coded) {
      averaged(bucket.parameters, false, round, gradients, b + 1 == buckets_.size() ? votes : std::vector<float>(),
               means);
      continue;
    }
    if (hosts_) continue;
    std::vector<std::uint32_t> dense;
    std::vector<std::uint32_t> sparse;
    for (const auto tensor : bucket.parameters) {
      const auto shape = gradients[0][tensor].sizes();
      (ranks_[0].compressor->goes_dense(shape, round_of(round, 0, tensor)) ? dense : sparse).push_back(tensor);
    }
    if (!dense.empty()) averaged(dense, true, round, gradients, {}, means);
    if (splits_) {
      std::vector<std::pair<std::uint32_t, std::int64_t>> sizes;
      for (const auto tensor : bucket.parameters) sizes.emplace_back(tensor, gradients[0][tensor].numel());
      by_regions(split_.try_emplace(b, sizes, ranks_.size()).first->second, sparse, round, gradients, means);
    } else if (hops_) {
      by_hops(sparse, shares, round, gradients, means);
    } else if (owners_ > 0) {
      by_owners(sparse, shares, round, gradients, means);
    } else if (!sparse.empty()) {
      coded(sparse, round, gradients, means);
    }
  }
  return means;
}

void ExchangeModel::by_hosts(const Round& round, const std::vector<Tensors>& gradients, std::vector<Tensors>& means) {
  const std::size_t hosts = hosts_->ranks_.size();
  const float share = static_cast<float>(hosts) / static_cast<float>(ranks_.size());
  std::vector<Tensors> sums(hosts);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    Tensors& sum = sums[rank / ranks_per_host_];
    for (std::size_t p = 0; p < gradients[rank].size(); ++p) {
      const at::Tensor part = gradients[rank][p] * share;
      if (rank % ranks_per_host_ == 0) {
        sum.push_back(part);
      } else {
        sum[p] = sum[p] + part;
      }
    }
  }
  const auto of_hosts = hosts_->step(round, sums, std::vector<float>(hosts));
  for (const Bucket& bucket : buckets_) {
    if (!bucket.coded) continue;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const auto p : bucket.parameters) means[rank][p] = of_hosts[rank / ranks_per_host_][p].clone();
    }
  }
}

void ExchangeModel::averaged(const std::vector<std::uint32_t>& members, bool compensated, const Round& round,
                             const std::vector<Tensors>& gradients, const std::vector<float>& votes,
                             std::vector<Tensors>& means) {
  std::vector<at::Tensor> shares;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    std::vector<at::Tensor> parts;
    for (const auto tensor : members) {
      at::Tensor part = gradients[rank][tensor];
      if (compensated) part = ranks_[rank].memory->compensate_dense(part, round_of(round, rank, tensor));
      parts.push_back(part.reshape({-1}) * (1 / static_cast<float>(ranks_.size())));
    }
    if (!votes.empty()) parts.push_back(at::full({1}, votes[rank]));
    shares.push_back(at::cat(parts));
  }
  // Over a ring, what is plain beside coded buckets goes along a tree.
  const bool along_tree = topology_.name == "ring" && !compensated && std::ranges::any_of(buckets_, &Bucket::coded);
  const at::Tensor mean = along_tree ? topology_sum({.name = "tree"}, ranks_per_host_, shares) : sum_of(shares);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    std::int64_t begin = 0;
    for (const auto tensor : members) {
      const at::Tensor& like = gradients[rank][tensor];
      means[rank][tensor] = mean.narrow(0, begin, like.numel()).view(like.sizes()).clone();
      ranks_[rank].memory->average_dense(means[rank][tensor], round_of(round, rank, tensor));
      begin += like.numel();
    }
  }
}

void ExchangeModel::coded(const std::vector<std::uint32_t>& members, const Round& round,
                          const std::vector<Tensors>& gradients, std::vector<Tensors>& means) {
  const std::size_t ranks = ranks_.size();
  std::vector<Tensors> inputs(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const auto tensor : members) {
      inputs[rank].push_back(ranks_[rank].memory->compensate(gradients[rank][tensor], round_of(round, rank, tensor)));
    }
  }
  const auto passes = ranks_[0].compressor->traits().passes;
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    const bool gather = passes[pass] == Reduction::gather;
    std::vector<std::vector<Bytes>> payloads(ranks, std::vector<Bytes>(members.size()));
    std::vector<Bytes> together(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < members.size(); ++i) {
        Bytes& payload = payloads[rank][i];
        ranks_[rank].compressor->encode(inputs[rank][i], round_of(round, rank, members[i], pass), payload).value();
        append(together[rank], payload);
      }
    }
    const Bytes result = gather ? Bytes() : reduced(together, passes[pass]);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      std::vector<BytesView> results;
      if (gather) {
        for (std::size_t rank = 0; rank < ranks; ++rank) results.push_back(payloads[rank][i]);
      } else {
        results.push_back(BytesView(result).subspan(begin, payloads[0][i].size()));
      }
      begin += payloads[0][i].size();
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        auto& [compressor, memory] = ranks_[rank];
        const Round own = round_of(round, rank, members[i], pass);
        compressor->absorb(results, own).value();
        if (pass + 1 < passes.size()) continue;
        at::Tensor& mean = means[rank][members[i]] = at::zeros_like(gradients[rank][members[i]]);
        for (std::size_t from = 0; from < results.size(); ++from) {
          const Round of_result = gather ? round_of(round, from, members[i], pass) : own;
          compressor->decode_add(results[from], of_result, 1 / static_cast<float>(ranks), mean).value();
        }
        compressor->conclude(mean, own).value();
        const SentRows all{payloads[rank][i], own, 0, mean.size(0)};
        memory->update({*compressor, own, {all}}, mean);
      }
    }
  }
}

/// Row by row: an owner has the rows whose middle lies in its part of the bucket, which is cut into equal parts.
std::map<std::uint32_t, std::vector<ExchangeModel::Share>> ExchangeModel::shares_of(const Bucket& bucket,
                                                                                    const Tensors& like,
                                                                                    std::uint32_t first_id) const {
  std::map<std::uint32_t, std::vector<Share>> shares;
  if (owners_ == 0) return shares;
  std::int64_t entries = 0;
  for (const auto tensor : bucket.parameters) entries += like[tensor].numel();
  std::int64_t begin = 0;
  for (const auto tensor : bucket.parameters) {
    const std::int64_t row = like[tensor].numel() / like[tensor].size(0);
    auto& list = shares[tensor];
    for (std::int64_t r = 0; r < like[tensor].size(0); ++r) {
      std::size_t owner = 0;
      const auto end = [&](std::size_t of) {
        return entries * static_cast<std::int64_t>(of + 1) / static_cast<std::int64_t>(owners_);
      };
      while (owner + 1 < owners_ && begin + r * row + (row + 1) / 2 > end(owner)) ++owner;
      if (list.empty() || list.back().owner != owner) list.push_back({owner, r, 0, first_id++});
      ++list.back().count;
    }
    begin += like[tensor].numel();
  }
  return shares;
}

/// What is left out with the memory efsignsgd is owed to the weights. 1 in rounds that do not move them.
float ExchangeModel::change_of_unit(std::uint32_t share, const Round& round) {
  const auto now = static_cast<float>(round.learning_rate);
  if (!follows_learning_rate_ || now == 0) return 1;
  return std::exchange(rates_.try_emplace(share, now).first->second, now) / now;
}

/// Each owner averages its rows over all ranks and encodes them again, with what it has left out so far.
void ExchangeModel::by_owners(const std::vector<std::uint32_t>& members,
                              const std::map<std::uint32_t, std::vector<Share>>& shares, const Round& round,
                              const std::vector<Tensors>& gradients, std::vector<Tensors>& means) {
  const std::size_t ranks = ranks_.size();
  const auto traits = ranks_[0].compressor->traits();
  const double bound = ranks_[0].compressor->error_bound(1 << 20, {.epoch = 1e9});
  const bool keeps_residual = !traits.lossless && (traits.biased ? bound <= 1 : bound < 1);
  const bool counts_signs = traits.votes && std::isinf(bound);
  for (const auto tensor : members) {
    Tensors inputs;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      inputs.push_back(ranks_[rank].memory->compensate(gradients[rank][tensor], round_of(round, rank, tensor)));
    }
    at::Tensor agreed = at::zeros_like(gradients[0][tensor]);
    std::vector<std::vector<SentRows>> sent(ranks);
    for (const Share& share : shares.at(tensor)) {
      const auto& [owner, first, count, id] = share;
      at::Tensor& sum = residuals_.try_emplace(id, at::zeros_like(agreed.narrow(0, first, count))).first->second;
      sum.mul_(change_of_unit(id, round));
      auto payloads = encoded(share, inputs, round);
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        SentRows& up = payloads[rank];
        ranks_[owner].compressor->decode_add(up.payload, up.round, 1 / static_cast<float>(ranks), sum).value();
        sent[rank].push_back(std::move(up));
      }
      if (counts_signs) sum.masked_fill_(sum.abs() < 0.5 / static_cast<double>(ranks), 0);  // a tie
      // The way back is encoded by the owner as if it were alone.
      Round back = round_of(round, ranks + owner, id);
      Bytes down;
      for (back.pass = 0; back.pass < traits.passes.size(); ++back.pass) {
        down.clear();
        ranks_[owner].compressor->encode(sum, back, down).value();
        const BytesView result = down;
        if (back.pass + 1 < traits.passes.size()) {
          ranks_[owner].compressor->absorb(std::span(&result, 1), back).value();
        }
      }
      --back.pass;
      at::Tensor rows = agreed.narrow(0, first, count);
      ranks_[owner].compressor->decode_add(down, back, 1, rows).value();
      if (keeps_residual) {
        sum.sub_(rows);
      } else {
        sum.zero_();
      }
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto& [compressor, memory] = ranks_[rank];
      at::Tensor& mean = means[rank][tensor] = agreed.clone();
      const Round own = round_of(round, rank, tensor, traits.passes.size() - 1);
      compressor->conclude(mean, own).value();
      memory->update({*compressor, own, sent[rank]}, mean);
    }
  }
}

/// A rank's memory takes off what it has sent if that has come back.
void ExchangeModel::by_regions(SplitModel& split, const std::vector<std::uint32_t>& members, const Round& round,
                               const std::vector<Tensors>& gradients, std::vector<Tensors>& means) {
  if (members.empty()) return;
  const std::size_t ranks = ranks_.size();
  std::vector<Entries> chosen(ranks);
  std::vector<compressors::Compressor*> compressors;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto& [compressor, memory] = ranks_[rank];
    compressors.push_back(compressor.get());
    for (const auto tensor : members) {
      const Round own = round_of(round, rank, tensor);
      const at::Tensor input = memory->compensate(gradients[rank][tensor], own).reshape({-1});
      SentRows all{{}, own, 0, gradients[rank][tensor].size(0)};
      compressor->encode(input.view(gradients[rank][tensor].sizes()), own, all.payload).value();
      const at::Tensor mask = Sent{*compressor, own, {all}}.mask(gradients[rank][tensor]).view(-1);
      for (std::int64_t at = 0; at < input.numel(); ++at) {
        if (mask[at].item<float>() == 0) continue;
        chosen[rank].push_back({split.begin_of(tensor) + at, input[at].item<float>()});
      }
    }
  }
  const auto outcome = split.step(round.step, members, chosen, compressors);
  for (const auto tensor : members) {
    const std::int64_t begin = split.begin_of(tensor);
    const auto of_tensor = [&](const Entries& entries) {
      Entries found;
      for (const auto& [at, value] : entries) {
        if (at >= begin && at < begin + gradients[0][tensor].numel()) found.push_back({at - begin, value});
      }
      return found;
    };
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto& [compressor, memory] = ranks_[rank];
      at::Tensor& mean = means[rank][tensor] = at::zeros_like(gradients[rank][tensor]);
      for (const auto& [at, value] : of_tensor(outcome.mean)) mean.view(-1)[at] = value;
      const Round own = round_of(round, rank, tensor);
      memory->update({*compressor, own, {}, of_tensor(outcome.sent[rank]), of_tensor(outcome.corrections[rank])}, mean);
    }
  }
}

std::vector<SentRows> ExchangeModel::encoded(const Share& share, const Tensors& inputs, const Round& round) {
  const auto passes = ranks_[0].compressor->traits().passes;
  std::vector<SentRows> payloads;
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    payloads.clear();
    std::vector<Bytes> together;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      SentRows& up =
          payloads.emplace_back(SentRows{{}, round_of(round, rank, share.id, pass), share.first, share.count});
      const at::Tensor rows = inputs[rank].narrow(0, share.first, share.count);
      ranks_[rank].compressor->encode(rows, up.round, up.payload).value();
      together.push_back(up.payload);
    }
    if (pass + 1 == passes.size()) break;
    const Bytes result = reduced(together, passes[pass]);
    const BytesView view = result;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].compressor->absorb(std::span(&view, 1), payloads[rank].round).value();
    }
  }
  return payloads;
}

}  // namespace weir::training::testing
