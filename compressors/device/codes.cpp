#include "compressors/device/codes.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "compressors/device/download.hpp"
#include "compressors/device/launching.hpp"
#include "cuda/kernels/arithmetic.hpp"
#include "cuda/kernels/chunks.hpp"
#include "cuda/kernels/clusters.hpp"
#include "cuda/kernels/finite.hpp"
#include "cuda/kernels/half.hpp"
#include "cuda/kernels/natural.hpp"
#include "cuda/kernels/pack.hpp"
#include "cuda/kernels/qsgd.hpp"
#include "cuda/kernels/quantize.hpp"
#include "cuda/kernels/sample.hpp"
#include "cuda/kernels/signs.hpp"
#include "cuda/kernels/trits.hpp"
#include "cuda/memory.hpp"

namespace weir::compressors::device {
namespace {

cuda::RandomKey key_of(const RandomKey& key) { return {key.seed, key.step, key.tensor, key.stream}; }

/// What lies beside a code.
struct Head {
  cuda::Report report;
  cuda::SignSums sums;
};

cuda::Report* report_in(const CodePlace& place) { return &reinterpret_cast<Head*>(place.head)->report; }

/// Has `write(values, code, report, stream)` write a code, and waits for it: false if a value is NaN or infinite.
template <class Write>
Result<bool> write_code(const at::Tensor& values, std::span<std::byte> code, const Write& write) {
  const std::size_t bytes = code.size();
  auto codes = Codes::make(values, std::span(&bytes, 1));
  if (!codes) return codes.error();
  const CodePlace to = codes->place(0);
  auto done = write(place<float>(values), to.code, report_in(to), current_handle(values));
  if (done) done = codes->begin_down();
  if (!done) return done.error();
  const auto read = codes->read(0, code);
  return read ? Result<bool>(read->finite) : read.error();
}

/// Brings a code up and has `add(code, sum, stream)` add it.
template <class Add>
Result<void> add_code(BytesView code, at::Tensor& sum, const Add& add) {
  const at::Tensor above = bring_up(code, sum);
  return add(place<std::byte>(above), place<float>(sum), current_handle(sum));
}

}  // namespace

Codes::Codes(std::unique_ptr<Download> down) : down_(std::move(down)) {}
Codes::Codes(Codes&&) noexcept = default;
Codes::~Codes() = default;

Result<Codes> Codes::make(const at::Tensor& beside, std::span<const std::size_t> bytes) {
  auto down = Download::make(beside, sizeof(Head), bytes);
  return down ? Result<Codes>(Codes(std::make_unique<Download>(std::move(*down)))) : down.error();
}

CodePlace Codes::place(std::size_t i) const { return {.code = down_->body(i), .head = down_->head(i)}; }

Result<void> Codes::begin_down() { return down_->begin(); }

Result<Codes::Read> Codes::read(std::size_t i, std::span<std::byte> code) const {
  if (auto copied = down_->copy_body(i, code); !copied) return copied.error();
  Head head;
  std::memcpy(&head, down_->head_below(i), sizeof head);
  return Read{head.report.largest < cuda::magnitude_infinite,
              {head.sums.positive, head.sums.negative, head.sums.negatives}};
}

Result<bool> all_finite(const at::Tensor& values) {
  return write_code(values, {}, [&](const float* from, std::byte*, cuda::Report* report, cuda::StreamHandle stream) {
    return cuda::find_largest(from, size_of(values), report, stream);
  });
}

Result<std::uint32_t> largest_magnitude(const at::Tensor& values) {
  const at::Tensor report = new_report(values);
  auto done =
      cuda::find_largest(place<float>(values), size_of(values), place<cuda::Report>(report), current_handle(values));
  if (!done) return done.error();
  return read<cuda::Report>(report).largest;
}

Result<bool> write_entries(const at::Tensor& values, std::span<std::byte> code) {
  return write_code(values, code,
                    [&](const float* from, std::byte* to, cuda::Report* report, cuda::StreamHandle stream) {
                      return cuda::copy_scaled(1, from, reinterpret_cast<float*>(to), size_of(values), report, stream);
                    });
}

template <class Number>
Result<bool> write_rounded(const at::Tensor& values, float share, std::span<std::byte> code) {
  return write_code(
      values, code, [&](const float* from, std::byte* to, cuda::Report* report, cuda::StreamHandle stream) {
        return cuda::round_to(from, size_of(values), share, reinterpret_cast<Number*>(to), report, stream);
      });
}
template Result<bool> write_rounded<Half>(const at::Tensor&, float, std::span<std::byte>);
template Result<bool> write_rounded<BFloat16>(const at::Tensor&, float, std::span<std::byte>);

Result<void> begin_votes(const at::Tensor& values, const RandomKey& coins, const CodePlace& to) {
  return cuda::write_votes(place<float>(values), size_of(values), 0, key_of(coins), to.code, report_in(to),
                           current_handle(values));
}

Result<void> begin_signs(const at::Tensor& values, const CodePlace& to) {
  const at::Tensor parts = scratch(values, cuda::sign_sum_parts(size_of(values)) * sizeof(cuda::SignSums));
  auto* const head = reinterpret_cast<Head*>(to.head);
  return cuda::write_signs(place<float>(values), size_of(values), to.code, place<cuda::SignSums>(parts), &head->sums,
                           &head->report, current_handle(values));
}

Result<void> begin_int8(const at::Tensor& values, std::uint64_t channels, const CodePlace& to) {
  const at::Tensor extremes = scratch(values, channels * sizeof(cuda::RowExtremes));
  return cuda::write_int8(place<float>(values), channels, size_of(values) / channels,
                          place<cuda::RowExtremes>(extremes), to.code, report_in(to), current_handle(values));
}

Result<void> begin_uint8(const at::Tensor& values, std::uint64_t channels, const CodePlace& to) {
  const at::Tensor extremes = scratch(values, channels * sizeof(cuda::RowExtremes));
  return cuda::write_uint8(place<float>(values), channels, size_of(values) / channels,
                           place<cuda::RowExtremes>(extremes), to.code, report_in(to), current_handle(values));
}

Result<void> begin_natural(const at::Tensor& values, const RandomKey& key, const CodePlace& to) {
  const at::Tensor window = scratch(values, sizeof(cuda::NaturalWindow));
  return cuda::write_natural(place<float>(values), size_of(values), key_of(key), place<cuda::NaturalWindow>(window),
                             to.code, report_in(to), current_handle(values));
}

Result<void> begin_levels(const at::Tensor& values, const RandomKey& key, unsigned bits, std::uint64_t bucket,
                          const CodePlace& to) {
  return cuda::write_levels(place<float>(values), size_of(values), key_of(key), bits, bucket, to.code, report_in(to),
                            current_handle(values));
}

Result<void> begin_trits(const at::Tensor& values, const RandomKey& key, float limit, float scale,
                         const CodePlace& to) {
  const cuda::TritScale given{.limit = limit, .scale = scale};
  const at::Tensor above = bring_up(std::span(&given, 1), values);
  return cuda::write_trits(place<float>(values), size_of(values), key_of(key), place<cuda::TritScale>(above), to.code,
                           current_handle(values));
}

Result<void> add_by_sign(BytesView bits, float positive, float negative, at::Tensor& sum) {
  return add_code(bits, sum, [&](const std::byte* from, float* to, cuda::StreamHandle stream) {
    return cuda::add_by_sign(from, size_of(sum), positive, negative, to, stream);
  });
}

Result<void> add_int8(BytesView code, std::uint64_t channels, float weight, at::Tensor& sum) {
  return add_code(code, sum, [&](const std::byte* from, float* to, cuda::StreamHandle stream) {
    return cuda::add_int8(from, channels, size_of(sum) / channels, weight, to, stream);
  });
}

Result<void> add_uint8(BytesView code, std::uint64_t channels, float weight, at::Tensor& sum) {
  return add_code(code, sum, [&](const std::byte* from, float* to, cuda::StreamHandle stream) {
    return cuda::add_uint8(from, channels, size_of(sum) / channels, weight, to, stream);
  });
}

Result<void> add_natural(BytesView code, float weight, at::Tensor& sum) {
  return add_code(code, sum, [&](const std::byte* from, float* to, cuda::StreamHandle stream) {
    return cuda::add_natural(from, size_of(sum), weight, to, stream);
  });
}

Result<void> add_levels(BytesView buckets, unsigned bits, std::uint64_t bucket, float weight, at::Tensor& sum) {
  return add_code(buckets, sum, [&](const std::byte* from, float* to, cuda::StreamHandle stream) {
    return cuda::add_levels(from, size_of(sum), bits, bucket, weight, to, stream);
  });
}

Result<void> add_trits(BytesView code, float weight, at::Tensor& sum) {
  return add_code(code, sum, [&](const std::byte* from, float* to, cuda::StreamHandle stream) {
    return cuda::add_trits(from, size_of(sum), weight, to, stream);
  });
}

template <class Number>
Result<bool> add_rounded(BytesView numbers, float weight, at::Tensor& sum) {
  const at::Tensor above = bring_up(numbers, sum);
  const at::Tensor report = new_report(sum);
  auto done = cuda::add_scaled(weight, place<Number>(above), size_of(sum), place<float>(sum),
                               place<cuda::Report>(report), current_handle(sum));
  if (!done) return done.error();
  return read<cuda::Report>(report).misfit == 0;
}
template Result<bool> add_rounded<Half>(BytesView, float, at::Tensor&);
template Result<bool> add_rounded<BFloat16>(BytesView, float, at::Tensor&);

Result<void> take_majority(float least, const RandomKey& coins, at::Tensor& votes) {
  return cuda::take_majority(least, key_of(coins), place<float>(votes), size_of(votes), current_handle(votes));
}

Result<Size> magnitude_and_squares(const at::Tensor& values) {
  const at::Tensor parts = scratch(values, cuda::size_parts(size_of(values)) * sizeof(cuda::Size));
  const at::Tensor size = scratch(values, sizeof(cuda::Size));
  auto done = cuda::size_of(place<float>(values), size_of(values), place<cuda::Size>(parts), place<cuda::Size>(size),
                            current_handle(values));
  if (!done) return done.error();
  const auto found = read<cuda::Size>(size);
  return Size{found.magnitude, found.squares};
}

Result<void> sum_magnitudes(const at::Tensor& values, std::uint64_t chunk, std::span<float> norms) {
  auto done = write_code(values, std::as_writable_bytes(norms),
                         [&](const float* from, std::byte* to, cuda::Report*, cuda::StreamHandle stream) {
                           return cuda::sum_magnitudes(from, {.n = size_of(values), .length = chunk},
                                                       reinterpret_cast<float*>(to), stream);
                         });
  return done ? Result<void>() : done.error();
}

Result<bool> take_chunks(const at::Tensor& values, std::uint64_t chunk, std::span<const std::uint32_t> chosen,
                         std::span<std::byte> code) {
  const at::Tensor above = bring_up(chosen, values);
  return write_code(values, code,
                    [&](const float* from, std::byte* to, cuda::Report* report, cuda::StreamHandle stream) {
                      return cuda::take_chunks(from, {.n = size_of(values), .length = chunk},
                                               place<std::uint32_t>(above), chosen.size(), to, report, stream);
                    });
}

Result<bool> draw(const at::Tensor& values, const RandomKey& key, bool is_unbiased, std::span<float> drawn) {
  const cuda::Draw what{key_of(key), size_of(values), drawn.size(), is_unbiased};
  return write_code(values, std::as_writable_bytes(drawn),
                    [&](const float* from, std::byte* to, cuda::Report* report, cuda::StreamHandle stream) {
                      return cuda::draw(from, what, reinterpret_cast<float*>(to), report, stream);
                    });
}

Result<void> sample(const at::Tensor& values, std::size_t stride, std::vector<float>& sampled) {
  const at::Tensor some = values.view({-1}).slice(0, 0, values.numel(), static_cast<std::int64_t>(stride)).contiguous();
  const at::Tensor below = host_bytes(values, some.nbytes());
  if (some.numel() > 0) below.view(at::kFloat).copy_(some, /*non_blocking=*/true);
  wait(values);
  sampled.resize(size_of(some));
  if (!sampled.empty()) std::memcpy(sampled.data(), below.data_ptr(), some.nbytes());
  return {};
}

Result<bool> write_clusters(const at::Tensor& values, const Clusters& clusters, std::uint32_t salt,
                            std::span<std::byte> code) {
  cuda::Clusters to{.bits = clusters.bits, .salt = salt};
  std::ranges::copy(clusters.thresholds, to.thresholds);
  std::ranges::copy(clusters.sizes, to.sizes);
  std::exclusive_scan(to.sizes, to.sizes + clusters.count(), to.tables, 0U);
  const std::uint64_t entries = size_of(values);
  const at::Tensor ids = scratch(values, entries);
  const at::Tensor buckets = at::empty({values.numel()}, values.options().dtype(at::kInt));
  return write_code(
      values, code, [&](const float* from, std::byte* out, cuda::Report* report, cuda::StreamHandle stream) {
        auto done =
            cuda::place_entries(from, entries, to, place<std::byte>(ids), place<std::int32_t>(buckets), report, stream);
        if (!done) return done;
        const auto [sorted, order] = at::sort(buckets, /*stable=*/true, /*dim=*/0, /*descending=*/false);
        const std::size_t means = clusters.buckets();
        done = cuda::mean_of_buckets(from, entries, place<std::int32_t>(sorted), place<std::int64_t>(order), means,
                                     reinterpret_cast<float*>(out), stream);
        if (!done) return done;
        return cuda::pack(place<std::byte>(ids), entries, clusters.bits, out + means * sizeof(float), stream);
      });
}

}  // namespace weir::compressors::device
