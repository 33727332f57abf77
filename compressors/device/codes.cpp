#include "compressors/device/codes.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/errc.hpp"
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
  cuda::Size size;
};

Head* head_in(const CodePlace& place) { return reinterpret_cast<Head*>(place.head); }
cuda::Report* report_in(const CodePlace& place) { return &head_in(place)->report; }

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

cuda::Clusters of_kernels(const Clusters& clusters, std::uint32_t salt) {
  cuda::Clusters to{.bits = clusters.bits, .salt = salt};
  std::ranges::copy(clusters.thresholds, to.thresholds);
  std::ranges::copy(clusters.sizes, to.sizes);
  std::exclusive_scan(to.sizes, to.sizes + clusters.count(), to.tables, 0U);
  return to;
}

cuda::StreamHandle stream_of(std::span<const ToCode> tensors) { return current_handle(tensors.front().values); }

/// What kernels are to know of tensors whose codes draw at random.
std::vector<cuda::CodeToWrite> codes_to_write(std::span<const ToCode> tensors) {
  std::vector<cuda::CodeToWrite> all;
  for (const auto& [values, channels, key, to] : tensors) {
    all.push_back({place<float>(values), size_of(values), key_of(key), to.code, report_in(to)});
  }
  return all;
}

/// Scratch beside tensors, which has count_of(entries) Parts for each.
template <class Part>
class Scratch {
 public:
  template <class CountOf>
  Scratch(std::span<const ToCode> tensors, const CountOf& count_of) {
    std::uint64_t all = 0;
    for (const ToCode& tensor : tensors) all += count_of(size_of(tensor.values));
    parts_ = scratch(tensors.front().values, all * sizeof(Part));
    next_ = place<Part>(parts_);
  }

  /// The parts of the next tensor, which are `count`.
  Part* take(std::uint64_t count) { return std::exchange(next_, next_ + count); }

 private:
  at::Tensor parts_;
  Part* next_ = nullptr;
};

/// Has `write(rows, stream)` write codes that have a head for each row.
template <class Write>
Result<void> begin_rows(std::span<const ToCode> tensors, const Write& write) {
  std::int64_t channels = 0;
  for (const ToCode& tensor : tensors) channels += static_cast<std::int64_t>(tensor.channels);
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(cuda::RowExtremes));
  const at::Tensor extremes = at::zeros({channels * bytes}, tensors.front().values.options().dtype(at::kByte));
  auto* of_tensor = place<cuda::RowExtremes>(extremes);
  std::vector<cuda::RowsToWrite> all;
  for (const auto& [values, rows, key, to] : tensors) {
    all.push_back({place<float>(values), rows, size_of(values) / rows, of_tensor, to.code, report_in(to)});
    of_tensor += rows;
  }
  return write(all, stream_of(tensors));
}

/// Brings codes up and has `add(stream, code)` add them: code(i) is where that of codes[i] lies.
template <class Add>
Result<void> add_codes(std::span<const ToAdd> codes, const Add& add) {
  std::vector<BytesView> below;
  for (const ToAdd& code : codes) below.push_back(code.code);
  const RaisedBytes above = bring_up_all(below, codes.front().sum);
  return add(current_handle(codes.front().sum), [&](std::size_t i) { return above.place(i); });
}

/// The same, of codes of which kernels are to know no more than the weight: has `add(all, stream)` add them.
template <class Add>
Result<void> add_plain_codes(std::span<const ToAdd> codes, const Add& add) {
  return add_codes(codes, [&](cuda::StreamHandle stream, const auto& code) {
    std::vector<cuda::CodeToAdd> all;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      all.push_back({code(i), size_of(codes[i].sum), codes[i].weight, place<float>(codes[i].sum)});
    }
    return add(all, stream);
  });
}

/// The same, of codes that have a head for each row.
template <class Add>
Result<void> add_rows(std::span<const ToAdd> codes, const Add& add) {
  return add_codes(codes, [&](cuda::StreamHandle stream, const auto& code) {
    std::vector<cuda::RowsToAdd> all;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const auto& [below, channels, weight, negative, sum] = codes[i];
      all.push_back({code(i), channels, size_of(sum) / channels, weight, place<float>(sum)});
    }
    return add(all, stream);
  });
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
              {head.sums.positive, head.sums.negative, head.sums.negatives},
              {head.size.magnitude, head.size.squares}};
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

Result<void> begin_votes(std::span<const ToCode> tensors) {
  return cuda::write_votes(codes_to_write(tensors), stream_of(tensors));
}

Result<void> begin_signs(std::span<const ToCode> tensors) {
  Scratch<cuda::SignSums> parts(tensors, cuda::sign_sum_parts);
  std::vector<cuda::SignsToWrite> all;
  for (const auto& [values, channels, key, to] : tensors) {
    const std::uint64_t n = size_of(values);
    Head* const head = head_in(to);
    all.push_back({place<float>(values), n, to.code, parts.take(cuda::sign_sum_parts(n)), &head->sums, &head->report});
  }
  return cuda::write_signs(all, stream_of(tensors));
}

Result<void> begin_int8(std::span<const ToCode> tensors) { return begin_rows(tensors, cuda::write_int8); }

Result<void> begin_uint8(std::span<const ToCode> tensors) { return begin_rows(tensors, cuda::write_uint8); }

Result<void> begin_natural(std::span<const ToCode> tensors) {
  Scratch<cuda::NaturalWindow> windows(tensors, [](std::uint64_t) { return 1; });
  std::vector<cuda::NaturalToWrite> all;
  for (const auto& [values, channels, key, to] : tensors) {
    all.push_back({place<float>(values), size_of(values), key_of(key), windows.take(1), to.code, report_in(to)});
  }
  return cuda::write_natural(all, stream_of(tensors));
}

Result<void> begin_levels(std::span<const ToCode> tensors, unsigned bits, std::uint64_t bucket) {
  return cuda::write_levels(codes_to_write(tensors), bits, bucket, stream_of(tensors));
}

Result<void> begin_trits(std::span<const ToCode> tensors, std::span<const TritScale> scales) {
  std::vector<cuda::TritsToWrite> all;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [values, channels, key, to] = tensors[i];
    all.push_back({place<float>(values), size_of(values), key_of(key), {scales[i].limit, scales[i].scale}, to.code});
  }
  return cuda::write_trits(all, stream_of(tensors));
}

Result<void> begin_sizes(std::span<const ToCode> tensors) {
  Scratch<cuda::Size> parts(tensors, cuda::size_parts);
  std::vector<cuda::SizeToFind> all;
  for (const auto& [values, channels, key, to] : tensors) {
    const std::uint64_t n = size_of(values);
    all.push_back({place<float>(values), n, parts.take(cuda::size_parts(n)), &head_in(to)->size});
  }
  return cuda::find_sizes(all, stream_of(tensors));
}

Result<void> add_by_sign(std::span<const ToAdd> codes) {
  return add_codes(codes, [&](cuda::StreamHandle stream, const auto& bits) {
    std::vector<cuda::SignsToAdd> all;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const auto& [below, channels, positive, negative, sum] = codes[i];
      all.push_back({bits(i), size_of(sum), positive, negative, place<float>(sum)});
    }
    return cuda::add_by_sign(all, stream);
  });
}

Result<void> add_int8(std::span<const ToAdd> codes) { return add_rows(codes, cuda::add_int8); }

Result<void> add_uint8(std::span<const ToAdd> codes) { return add_rows(codes, cuda::add_uint8); }

Result<void> add_natural(std::span<const ToAdd> codes) { return add_plain_codes(codes, cuda::add_natural); }

Result<void> add_levels(std::span<const ToAdd> codes, unsigned bits, std::uint64_t bucket) {
  return add_plain_codes(codes, [&](std::span<const cuda::CodeToAdd> all, cuda::StreamHandle stream) {
    return cuda::add_levels(all, bits, bucket, stream);
  });
}

Result<void> add_trits(std::span<const ToAdd> codes) { return add_plain_codes(codes, cuda::add_trits); }

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

Result<void> take_majority(float least, std::span<const RandomKey> coins, std::span<const at::Tensor> votes) {
  std::vector<cuda::VotesToCount> all;
  for (std::size_t i = 0; i < votes.size(); ++i) {
    all.push_back({key_of(coins[i]), place<float>(votes[i]), size_of(votes[i])});
  }
  return cuda::take_majority(least, all, current_handle(votes.front()));
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

Result<void> add_clusters(BytesView ids, std::span<const float> means, const Clusters& clusters, std::uint32_t salt,
                          float weight, at::Tensor& sum) {
  const std::array<BytesView, 2> below{ids, std::as_bytes(means)};
  const RaisedBytes above = bring_up_all(below, sum);
  return cuda::add_by_bucket(above.place(0), reinterpret_cast<const float*>(above.place(1)), size_of(sum),
                             of_kernels(clusters, salt), weight, place<float>(sum), current_handle(sum));
}

Result<bool> write_clusters(const at::Tensor& values, const Clusters& clusters, std::uint32_t salt,
                            std::span<std::byte> code) {
  constexpr std::int64_t sorted_max = std::numeric_limits<std::int32_t>::max();
  if (values.numel() > sorted_max) {
    return Error{Errc::invalid_argument, "a tensor of " + std::to_string(values.numel()) + " entries: on a GPU " +
                                             std::to_string(sorted_max) + " can be sorted into clusters"};
  }
  const cuda::Clusters to = of_kernels(clusters, salt);
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
