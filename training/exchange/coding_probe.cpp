#include "training/exchange/coding_probe.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compressors/device/device.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/sent.hpp"
#include "training/exchange/coded_round.hpp"
#include "training/exchange/stopwatch.hpp"

namespace weir::training {
namespace {

using compressors::Compression;
using compressors::Reduction;
using compressors::Round;

/// Larger tensors are measured by their first rows.
constexpr std::int64_t entries_max = 1 << 22;

/// The first rows of a tensor of this shape, at least one.
std::vector<std::int64_t> rows_to_measure(at::IntArrayRef shape, double& share) {
  std::vector<std::int64_t> part(shape.begin(), shape.end());
  share = 1;
  if (part.empty() || part[0] == 0) return part;
  const std::int64_t row = std::max<std::int64_t>(1, c10::multiply_integers(shape) / part[0]);
  const std::int64_t rows = std::clamp<std::int64_t>(entries_max / row, 1, part[0]);
  share = static_cast<double>(rows) / static_cast<double>(part[0]);
  part[0] = rows;
  return part;
}

/// How many times longer the payloads of a whole tensor are than those of its first rows, a share of it: of the factors
/// of a matrix only one grows with its rows.
double times_longer(const compressors::Compressor& compressor, at::IntArrayRef whole, at::IntArrayRef part,
                    double share, const Round& round) {
  const auto bits = compressor.expected_bits(whole, round);
  const auto bits_of_part = compressor.expected_bits(part, round);
  const double times = bits && bits_of_part
                           ? (bits->summed + bits->gathered) / (bits_of_part->summed + bits_of_part->gathered) / share
                           : 0;
  return std::isfinite(times) && times > 0 ? times : 1 / share;
}

/// What the whole tensor is to the rows that are measured.
struct Growth {
  double payload = 1;  ///< times_longer()
  double entries = 1;  ///< so many times more
};

/// One round of the first rows of a tensor, or all. The times and bytes of the whole one are added to `load`.
Result<void> measure_round(Compression& compression, const at::Tensor& gradient, Round round, const Growth& growth,
                           CodedLoad& load) {
  auto& [compressor, memory] = compression;
  const auto traits = compressor->traits();
  round.rank = 0;  // as the only rank: there are no payloads of others
  round.world = 1;
  const at::Device place = gradient.device();
  const auto wait = [place] {
    if (!place.is_cpu()) c10::impl::getDeviceGuardImpl(place.type())->getStream(place).synchronize();
  };
  const bool decodes_there = compressor->decodes_on(place);
  at::Tensor mean = at::zeros(gradient.sizes(), decodes_there ? gradient.options() : at::TensorOptions(at::kFloat));
  compressors::Selection own;
  Bytes payload;
  const Stopwatch encoding;
  double decoding = 0;
  auto compensated = memory->compensate(gradient, round);
  if (!compensated) return compensated.error();
  round.peaks = memory->peaks(round);
  round.bins = memory->bins(round);
  load.passes.resize(traits.passes.size());
  for (round.pass = 0; round.pass < traits.passes.size(); ++round.pass) {
    payload.clear();
    const bool last = round.pass + 1 == traits.passes.size();
    auto encoded = compressor->encode(*compensated, round, payload, last && traits.sparse ? &own : nullptr);
    if (!encoded) return encoded;
    PassLoad& pass = load.passes[round.pass];
    const Reduction reduction = traits.passes[round.pass];
    if (reduction != Reduction::gather) pass.summed = element_of(reduction);
    pass.bytes += growth.payload * static_cast<double>(payload.size());
    const BytesView result = payload;
    if (auto absorbed = compressor->absorb(std::span(&result, 1), round); !absorbed) return absorbed;
  }
  --round.pass;
  const Stopwatch watch;
  auto decoded = compressor->decode_add(payload, round, 1, mean);
  if (!decoded) return decoded;
  if (!decodes_there) (void)mean.to(place);
  wait();
  decoding = watch.seconds();
  if (auto concluded = compressor->conclude(mean, round); !concluded) return concluded;
  const auto sent = traits.sparse ? compressors::Sent(own) : compressors::Sent(*compressor, BytesView(payload), round);
  if (auto updated = memory->update(round, sent, mean); !updated) return updated;
  wait();
  load.encode_seconds += growth.entries * (encoding.seconds() - decoding);
  load.decode_seconds += growth.entries * decoding;
  return {};
}

}  // namespace

BucketLoad load_of(const compressors::Compressor& compressor, at::IntArrayRef shape, const Round& round,
                   const CodedLoad& encoded) {
  BucketLoad load;
  load.dense_bytes = static_cast<double>(c10::multiply_integers(shape)) * sizeof(float);
  load.coded = compressor.takes(shape);
  if (!load.coded) return load;
  Round asked = round;
  for (CodedLoad* way : {&load.by_all, &load.by_owners}) {
    asked.by_owners = way == &load.by_owners;
    const bool dense = compressor.goes_dense(shape, asked);
    if (dense) {
      way->left_dense_bytes = load.dense_bytes;
    } else {
      *way = encoded;
    }
  }
  return load;
}

Result<std::vector<BucketLoad>> measure_coding(Compression& compression,
                                               std::span<const compressors::NamedTensor> parameters,
                                               const Round& round) {
  auto generator = at::detail::createCPUGenerator(round.seed);
  const at::Device device = parameters.empty() ? at::Device(at::kCPU) : parameters.front().tensor.device();
  const bool there = !device.is_cpu() && compressors::device::has_kernels(device) && compression.codes_on(device);
  c10::OptionalStreamGuard in_stream;
  if (there) {  // always the same one: LibTorch keeps what was freed in a stream for that stream
    static const c10::Stream stream = compressors::device::coding_stream(device);
    in_stream.reset_stream(stream);
  }
  std::vector<BucketLoad> loads;
  for (const auto& [name, tensor] : parameters) {
    Round own = round;
    own.tensor = static_cast<std::uint32_t>(loads.size());
    const BucketLoad unmeasured = load_of(*compression.compressor, tensor.sizes(), own, {});
    const bool encodes = unmeasured.by_all.left_dense_bytes == 0 || unmeasured.by_owners.left_dense_bytes == 0;
    if (!unmeasured.coded || !encodes || tensor.numel() == 0) {
      loads.push_back(unmeasured);
      continue;
    }
    double share = 1;
    const auto part = rows_to_measure(tensor.sizes(), share);
    const at::Tensor gradient = at::randn(part, generator).mul_(1e-3).to(there ? device : at::Device(at::kCPU));
    const Growth growth{times_longer(*compression.compressor, tensor.sizes(), part, share, own), 1 / share};
    CodedLoad first;  // in the first round memory is allocated
    CodedLoad encoded;
    for (CodedLoad* of_round : {&first, &encoded}) {
      if (auto done = measure_round(compression, gradient, own, growth, *of_round); !done) {
        return done.error().within("gradient of " + name);
      }
      ++own.step;
    }
    loads.push_back(load_of(*compression.compressor, tensor.sizes(), own, encoded));
  }
  return loads;
}

double measure_copy() {
  const at::Tensor from = at::zeros({entries_max});
  at::Tensor to = at::zeros({entries_max});
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const Stopwatch watch;
    compressors::copy_scaled(0.5F, compressors::flat(from), compressors::flat(to));
    best = std::min(best, watch.seconds());
  }
  return best / static_cast<double>(from.nbytes());
}

}  // namespace weir::training
