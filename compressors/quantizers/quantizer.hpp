#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

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

 protected:
  virtual Format format() const = 0;

  /// The size of the code in bytes.
  virtual std::size_t code_bytes(const Extent& extent) const = 0;

  /// Fills `code` for `values` (never empty). Returns false, with a meaningless `code`, if a value is NaN or infinite.
  virtual bool write(std::span<const float> values, const Extent& extent, const Round& round,
                     std::span<std::byte> code) = 0;

  /// Has a device begin to write the code of a contiguous float32 tensor that lies there, but for the head. Fails as
  /// compressors/device.
  virtual Result<void> begin_on_device(const at::Tensor& values, const Extent& extent, const Round& round,
                                       const device::CodePlace& to) = 0;
  /// The first bytes of a code, which the host writes when a device has written the rest.
  virtual std::size_t head_bytes() const { return 0; }
  virtual void write_head(const Extent& /*extent*/, const SignSums& /*sums*/, std::span<std::byte> /*head*/) const {}
  /// Whether begin_on_device() may be called ahead of do_encode(), in this pass.
  virtual bool begins_ahead(const Round& /*round*/) const { return true; }

  /// Whether a code (never of no entries) can be read: one that write() never writes may be refused, or decoded to any
  /// finite floats. It has code_bytes() bytes but is untrusted otherwise. Fails with: malformed.
  virtual Result<void> check(BytesView code, const Extent& extent) const = 0;

  /// The code of a range of entries can be read by itself if the range begins at a multiple of this many.
  virtual std::size_t unit() const = 0;

  /// sum += weight * decoded `code`, which has been checked, for the entries from `begin`, a multiple of unit(), to
  /// `end`, another one or the last. Called on several threads at the same time.
  virtual void read_add(BytesView code, const Extent& extent, float weight, std::size_t begin, std::size_t end,
                        std::span<float> sum) const = 0;

  /// The same of a whole code for a contiguous tensor on a device. Fails as compressors/device.
  virtual Result<void> read_add_on_device(BytesView code, const Extent& extent, float weight,
                                          at::Tensor& sum) const = 0;

  Result<void> do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) override;
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;
  Result<void> do_decode_add_on_device(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;
  Result<void> do_decode_add_ranks(std::span<const BytesView> payloads, const Round& round, float weight,
                                   at::Tensor& sum) override;

 private:
  /// One of the codes of a bucket, on its way to the host.
  struct Coming {
    std::shared_ptr<const device::Codes> codes;
    std::size_t index = 0;
  };

  Result<std::shared_ptr<const device::Codes>> begin_codes(std::span<const at::Tensor> tensors,
                                                           std::span<const Round> rounds);
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
