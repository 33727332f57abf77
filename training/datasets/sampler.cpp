#include "training/datasets/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "training/datasets/mixture.hpp"
#include "training/datasets/random.hpp"

namespace weir::training {
namespace {

/// Streams of the job's seed. Epochs use the numbers from first_epoch_stream on.
enum Stream : std::uint64_t { mixture_stream = 1, division_stream = 2, first_epoch_stream = 16 };

using Positions = std::vector<std::uint32_t>;

Positions all_positions(std::size_t count) {
  Positions positions(count);
  std::iota(positions.begin(), positions.end(), 0u);
  return positions;
}

Positions slice(const Positions& positions, std::uint32_t rank, std::size_t size) {
  const auto begin = positions.begin() + static_cast<std::ptrdiff_t>(rank * size);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

Positions cut_by_class(const Sampler::Options& options, std::span<const std::uint16_t> classes, std::size_t size) {
  auto positions = all_positions(classes.size());
  Random random(options.seed, division_stream);
  random.shuffle(std::span(positions));
  positions.resize(size * options.world);  // what is left over is of any class, and not always of the last one
  std::ranges::stable_sort(positions, {}, [&](std::uint32_t p) { return classes[p]; });
  return slice(positions, options.rank, size);
}

std::size_t count_classes(std::span<const std::uint16_t> classes) {
  std::vector<bool> seen(std::size_t{UINT16_MAX} + 1);
  for (const auto c : classes) seen[c] = true;
  return static_cast<std::size_t>(std::ranges::count(seen, true));
}

/// A mixture from a Dirichlet distribution.
Mixture draw_mixture(double alpha, std::size_t classes, Random& random) {
  constexpr double whole = 0x1p60;
  std::vector<double> shares(classes);
  for (double& share : shares) share = random.gamma(alpha);
  const double sum = std::max(std::accumulate(shares.begin(), shares.end(), 0.0), 1e-300);
  std::vector<std::uint64_t> weights;
  weights.reserve(classes);
  for (const double share : shares) {
    // The lower limit keeps every class reachable for a rank whose other classes are used up.
    weights.push_back(static_cast<std::uint64_t>(whole * std::max(share / sum, 1e-12)));
  }
  return Mixture(std::move(weights));
}

/// The ranks take turns, one example each, so that all shards have the same size whatever the mixtures are.
Positions draw_by_mixture(const Sampler::Options& options, std::span<const std::uint16_t> classes, std::size_t size) {
  std::vector<Positions> left(std::size_t{std::ranges::max(classes)} + 1);
  for (std::size_t i = 0; i < classes.size(); ++i) left[classes[i]].push_back(static_cast<std::uint32_t>(i));
  Random random(options.seed, mixture_stream);
  for (auto& positions : left) random.shuffle(std::span(positions));
  std::vector<Mixture> mixtures;
  for (std::uint32_t rank = 0; rank < options.world; ++rank) {
    mixtures.push_back(draw_mixture(options.dirichlet_alpha, left.size(), random));
  }
  const auto use_up = [&mixtures](std::size_t of_class) {
    for (Mixture& mixture : mixtures) mixture.remove(of_class);
  };
  for (std::size_t c = 0; c < left.size(); ++c) {
    if (left[c].empty()) use_up(c);
  }
  Positions mine;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::uint32_t rank = 0; rank < options.world; ++rank) {
      const std::size_t drawn = mixtures[rank].draw(random);
      if (rank == options.rank) mine.push_back(left[drawn].back());
      left[drawn].pop_back();
      if (left[drawn].empty()) use_up(drawn);
    }
  }
  return mine;
}

}  // namespace

std::optional<Partition> partition_named(std::string_view name) {
  if (name == "iid") return Partition::iid;
  if (name == "by_class") return Partition::by_class;
  if (name == "dirichlet") return Partition::dirichlet;
  return std::nullopt;
}

Result<Sampler> Sampler::make(const Options& options, std::span<const std::uint16_t> classes) {
  Sampler sampler(options, classes.size());
  sampler.shard_size_ = classes.size() / options.world;
  if (options.samples_per_step == 0 || sampler.steps_per_epoch() == 0) {
    return Error{Errc::invalid_argument, "a step takes " + std::to_string(options.samples_per_step) +
                                             " examples of each worker's shard, which has " +
                                             std::to_string(sampler.shard_size_) +
                                             "; that number is training.batch_size, times training.params.accumulate "
                                             "where the mode has it"};
  }
  if (options.partition == Partition::by_class) {
    if (const auto count = count_classes(classes); count < options.world) {
      return Error{Errc::invalid_argument,
                   "dataset.partition \"by_class\" gives each worker classes of its own, and "
                   "there are " +
                       std::to_string(count) + " classes for " + std::to_string(options.world) +
                       " workers; take fewer workers, or \"dirichlet\""};
    }
    sampler.fixed_shard_ = cut_by_class(options, classes, sampler.shard_size_);
  } else if (options.partition == Partition::dirichlet) {
    sampler.fixed_shard_ = draw_by_mixture(options, classes, sampler.shard_size_);
  }
  std::ranges::sort(sampler.fixed_shard_);
  return sampler;
}

void Sampler::enter_epoch(std::uint64_t epoch) {
  Random random(options_.seed, first_epoch_stream + epoch);
  if (options_.partition == Partition::iid) {
    auto positions = all_positions(examples_total_);
    random.shuffle(std::span(positions));
    order_ = slice(positions, options_.rank, shard_size_);
  } else {
    order_ = fixed_shard_;
    random.shuffle(std::span(order_));
  }
  epoch_ = epoch;
}

std::span<const std::uint32_t> Sampler::examples(std::uint64_t step) {
  const auto epoch = epoch_of(step);
  if (epoch_ != epoch) enter_epoch(epoch);
  const auto size = options_.samples_per_step;
  return std::span(order_).subspan(step % steps_per_epoch() * size, size);
}

}  // namespace weir::training
