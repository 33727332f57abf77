#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/function_ref.hpp"
#include "compressors/begun.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/compressor.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/device/device.hpp"
#include "compressors/kernels/quantization/signs.hpp"

namespace weir::compressors {

/// The size of a tensor, as the quantizers need it.
struct Extent {
  std::uint64_t entries = 0;
  std::uint64_t channels = 1;  ///< size of the first dimension if there are two or more, else 1
};

/// The base class of compressors that write a short code for every entry. A derived class defines the size of the code,
/// writes it and reads it; header, checksum and size checks are here. The body of the payload is
///
///     varint  entries of the tensor
///     ...     the code
class Quantizer : public Compressor {
 public:
  std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const override;
  bool codes_on(at::Device device) const final { return device.is_cpu() || device::has_kernels(device); }
  bool decodes_on(at::Device device) const final { return codes_on(device); }
  Result<void> decode_add_all(std::vector<device::ToAdd> waiting) override;

 protected:
  virtual Format format() const = 0;

  /// The size of the code in bytes.
  virtual std::size_t code_bytes(const Extent& extent) const = 0;

  /// Fills `code` for `values` (never empty). Returns false, with a meaningless `code`, if a value is NaN or infinite.
  virtual bool write(std::span<const float> values, const Extent& extent, const Round& round,
                     std::span<std::byte> code) = 0;

  /// Has a device begin to write the codes of contiguous float32 tensors that lie there, but for their heads. They come
  /// with their channels and with keys of this rank. Fails as compressors/device.
  virtual Result<void> begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round> rounds) = 0;
  /// The first bytes of a code, which the host writes when a device has written the rest.
  virtual std::size_t head_bytes() const { return 0; }
  virtual void write_head(const Extent& /*extent*/, const SignSums& /*sums*/, std::span<std::byte> /*head*/) const {}

  /// Whether a code (never of no entries) can be read: one that write() never writes may be refused, or decoded to any
  /// finite floats. It has code_bytes() bytes but is untrusted otherwise. Fails with: malformed.
  virtual Result<void> check(BytesView code, const Extent& extent) const = 0;

  /// The code of a range of entries can be read by itself if the range begins at a multiple of this many.
  virtual std::size_t unit() const = 0;

  /// sum += weight * decoded `code`, which has been checked, for the entries from `begin`, a multiple of unit(), to
  /// `end`, another one or the last. Called on several threads at the same time.
  virtual void read_add(BytesView code, const Extent& extent, float weight, std::size_t begin, std::size_t end,
                        std::span<float> sum) const = 0;

  /// The same of whole codes for contiguous tensors on a device. Fails as compressors/device.
  virtual Result<void> read_add_on_device(std::span<const device::ToAdd> codes) const = 0;

  Result<void> do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) override;
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;
  Result<void> do_decode_add_on_device(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;
  Result<void> do_decode_add_later(BytesView payload, const Round& round, float weight, at::Tensor& sum,
                                   std::vector<device::ToAdd>& waiting) override;
  Result<void> do_decode_add_ranks(std::span<const BytesView> payloads, const Round& round, float weight,
                                   at::Tensor& sum) override;

  /// One of the codes of a bucket, on its way to the host.
  struct Coming {
    std::shared_ptr<const device::Codes> codes;
    std::size_t index = 0;
  };
  /// Has `begin` put into the stream what writes codes of these sizes.
  static Result<std::vector<Coming>> begin_codes(std::span<const at::Tensor> tensors, std::span<const Round> rounds,
                                                 std::span<const std::size_t> bytes,
                                                 FunctionRef<Result<void>(std::span<const device::ToCode>)> begin);

 private:
  /// As begin_on_device().
  Result<std::vector<Coming>> begin_codes(std::span<const at::Tensor> tensors, std::span<const Round> rounds);
  /// As write(), of a tensor on a device.
  Result<bool> write_from_device(const at::Tensor& values, const Extent& extent, const Round& round,
                                 std::span<std::byte> code);
  /// The code in a payload, checked.
  Result<BytesView> open(BytesView payload, const Extent& extent) const;
  void read_add_codes(const Extent& extent, float weight, std::span<float> sum) const;

  Begun<Coming> begun_;
  std::vector<BytesView> codes_;  ///< to be added; kept between calls to reuse their memory
};

}  // namespace weir::compressors
