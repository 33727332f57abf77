// In builds without CUDA.

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/device/cosines.hpp"
#include "compressors/device/device.hpp"
#include "compressors/device/device_values.hpp"
#include "compressors/device/memory_steps.hpp"
#include "compressors/device/products.hpp"
#include "compressors/device/sums.hpp"

namespace weir::compressors::device {
class Download {};

namespace {

Error unsupported() { return {Errc::unsupported, "this build has no kernels: it was made without CUDA"}; }

}  // namespace

at::DeviceType type_of_kernels() { return at::DeviceType::CPU; }

Result<void> check_kernels() { return unsupported(); }

bool has_kernels(at::Device) { return false; }

c10::Stream coding_stream(at::Device device) {
  ensure(false, "streams for kernels where there are some");
  return c10::Stream(c10::Stream::DEFAULT, device);
}

Result<std::vector<Selecting>> Selecting::collect_by_sample(std::span<const BySample>) { return unsupported(); }
Result<std::vector<Selecting>> Selecting::select_largest(std::span<const Largest>) { return unsupported(); }
Result<CollectedBySample> DeviceValues::collect_by_sample(const SampledRank&, std::size_t, Selection&) const {
  return unsupported();
}
Result<void> DeviceValues::sample_magnitudes(const SampledRuns&, std::vector<float>&) const { return unsupported(); }
Result<bool> DeviceValues::collect(std::uint32_t, std::size_t, Selection&) const { return unsupported(); }
Result<void> DeviceValues::select_largest(std::size_t, Selection&) const { return unsupported(); }
Result<void> DeviceValues::select_of_blocks(std::size_t, std::size_t, Selection&) const { return unsupported(); }
Result<void> DeviceValues::select_of_blocks(const BlockGrid&, std::size_t, Selection&) const { return unsupported(); }
Result<MagnitudeSums> DeviceValues::magnitude_sums(std::uint32_t) const { return unsupported(); }
Result<void> DeviceValues::draw(const RandomKey&, float, Selection&) const { return unsupported(); }
Result<NonFinite> DeviceValues::first_non_finite() const { return unsupported(); }

Result<void> accumulate_residual(std::span<const ResidualOf>) { return unsupported(); }
Result<void> accumulate_residual(float, float, const at::Tensor&, const at::Tensor&) { return unsupported(); }
Result<void> accumulate_momentum(std::span<const MomentumOf>) { return unsupported(); }
Result<void> apply_momentum(std::span<const MomentumAppliedTo>) { return unsupported(); }
Result<double> sum_of_squares(const at::Tensor&) { return unsupported(); }
Result<void> subtract(const at::Tensor&, const at::Tensor&, at::Tensor&) { return unsupported(); }
Result<void> add_scaled(float, BytesView, at::Tensor&) { return unsupported(); }
const cuda::Bins* counts_of(const at::Tensor&) { return nullptr; }
Result<std::vector<at::Tensor>> add_entries(float, std::span<const EntriesFor>) { return unsupported(); }
Result<void> add_selection(float, const Selection&, at::Tensor&) { return unsupported(); }
Result<void> clear_entries(std::span<const PositionsIn>) { return unsupported(); }

Result<void> multiply(const at::Tensor&, MatrixShape, std::span<const float>, std::size_t, std::vector<float>&) {
  return unsupported();
}
Result<void> multiply_transposed(const at::Tensor&, MatrixShape, std::span<const float>, std::size_t,
                                 std::vector<float>&) {
  return unsupported();
}
Result<Products> Products::begin(std::span<const Of>, std::size_t) { return unsupported(); }
Products::Products(Products&&) noexcept = default;
Products::~Products() = default;
Result<void> Products::read(std::size_t, std::vector<float>&) const { return unsupported(); }
Result<void> add_outer_products(std::span<const float>, std::span<const float>, std::size_t, MatrixShape, float,
                                at::Tensor&) {
  return unsupported();
}

Result<at::Tensor> transform(const at::Tensor&, const BlockGrid&) { return unsupported(); }
Result<void> add_inverse(const BlockGrid&, const Selection&, float, at::Tensor&) { return unsupported(); }

Result<bool> write_shares(std::span<const at::Tensor>, float, const at::Tensor&, const at::Tensor&) {
  return unsupported();
}
Result<bool> widen(const at::Tensor&, const at::Tensor&) { return unsupported(); }
Result<at::Tensor> sums_of_squares(std::span<const at::Tensor>) { return unsupported(); }
void* current_cuda_stream(const at::Tensor&) { return nullptr; }

Result<bool> all_finite(const at::Tensor&) { return unsupported(); }
Result<std::uint32_t> largest_magnitude(const at::Tensor&) { return unsupported(); }
Result<bool> write_entries(const at::Tensor&, std::span<std::byte>) { return unsupported(); }
template <class Number>
Result<bool> write_rounded(const at::Tensor&, float, std::span<std::byte>) {
  return unsupported();
}
template Result<bool> write_rounded<Half>(const at::Tensor&, float, std::span<std::byte>);
template Result<bool> write_rounded<BFloat16>(const at::Tensor&, float, std::span<std::byte>);
Result<void> add_by_sign(std::span<const ToAdd>) { return unsupported(); }
Result<void> add_int8(std::span<const ToAdd>) { return unsupported(); }
Result<void> add_uint8(std::span<const ToAdd>) { return unsupported(); }
Result<void> add_natural(std::span<const ToAdd>) { return unsupported(); }
Result<void> add_levels(std::span<const ToAdd>, unsigned, std::uint64_t) { return unsupported(); }
Result<void> add_trits(std::span<const ToAdd>) { return unsupported(); }
template <class Number>
Result<bool> add_rounded(BytesView, float, at::Tensor&) {
  return unsupported();
}
template Result<bool> add_rounded<Half>(BytesView, float, at::Tensor&);
template Result<bool> add_rounded<BFloat16>(BytesView, float, at::Tensor&);
Result<void> take_majority(float, std::span<const RandomKey>, std::span<const at::Tensor>) { return unsupported(); }
Result<Codes> Codes::make(const at::Tensor&, std::span<const std::size_t>) { return unsupported(); }
Codes::Codes(Codes&&) noexcept = default;
Codes::~Codes() = default;
CodePlace Codes::place(std::size_t) const { return {}; }
Result<void> Codes::begin_down() { return unsupported(); }
Result<Codes::Read> Codes::read(std::size_t, std::span<std::byte>) const { return unsupported(); }
Result<void> begin_votes(std::span<const ToCode>) { return unsupported(); }
Result<void> begin_signs(std::span<const ToCode>) { return unsupported(); }
Result<void> begin_int8(std::span<const ToCode>) { return unsupported(); }
Result<void> begin_uint8(std::span<const ToCode>) { return unsupported(); }
Result<void> begin_natural(std::span<const ToCode>) { return unsupported(); }
Result<void> begin_levels(std::span<const ToCode>, unsigned, std::uint64_t) { return unsupported(); }
Result<void> begin_trits(std::span<const ToCode>, std::span<const TritScale>) { return unsupported(); }
Result<void> begin_sizes(std::span<const ToCode>) { return unsupported(); }
Result<void> sum_magnitudes(const at::Tensor&, std::uint64_t, std::span<float>) { return unsupported(); }
Result<bool> take_chunks(const at::Tensor&, std::uint64_t, std::span<const std::uint32_t>, std::span<std::byte>) {
  return unsupported();
}
Result<void> sample(const at::Tensor&, std::size_t, std::vector<float>&) { return unsupported(); }
Result<bool> write_clusters(const at::Tensor&, const Clusters&, std::uint32_t, std::span<std::byte>) {
  return unsupported();
}
Result<void> add_clusters(BytesView, std::span<const float>, const Clusters&, std::uint32_t, float, at::Tensor&) {
  return unsupported();
}
Result<bool> draw(const at::Tensor&, const RandomKey&, bool, std::span<float>) { return unsupported(); }

}  // namespace weir::compressors::device
