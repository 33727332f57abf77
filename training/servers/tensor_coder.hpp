#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/catalog.hpp"
#include "compressors/compressor.hpp"
#include "training/exchange/mean.hpp"
#include "training/servers/messages.hpp"

namespace weir::training::servers {

/// The reason why workers and servers cannot exchange with this compression (compressors::no_pushes); nothing if they
/// can.
std::optional<std::string> misfit(const compressors::Compression& compression);

/// What the coding of a job's messages depends on; equal on all ranks.
struct CodingSetting {
  std::uint64_t seed = 0;
  compressors::TrainingCourse course = {};
  std::uint64_t steps_per_epoch = 1;
  std::uint32_t workers = 1;
};

/// A message, for the coding of its tensors: what is random in it is a function of this.
struct Turn {
  std::uint32_t worker = 0;
  std::uint64_t clock = 0;  ///< of the push, or of that which is answered
  std::uint64_t step = 0;   ///< of the job, as the push says
  double learning_rate = 1;
  bool answers = false;
};

/// What a worker pushes of one of the model's parameters.
struct Gradient {
  std::uint32_t tensor = 0;  ///< position in the model
  std::string_view name;
  at::Tensor values;  ///< float32, contiguous
};

/// Codes the tensors of pushes and answers. Both ends know from a tensor's shape and the turn how it travels: as an
/// encoded payload or, where the compressor does not take it or would not make it smaller, as it is.
///
/// A server keeps what a worker's copy of its tensors is, to the bit: both add the same decoded differences to it. What
/// a difference leaves out is in the next one (the error feedback of EF21, Richtarik et al. 2021, and CocktailSGD, Wang
/// et al. 2023). Where a compressor chooses entries, a difference has as many of the largest as have come in since the
/// one before it: as many as all workers would gather, and with plain SGD all that have changed, if a message has room
/// for them. With those of one payload the copies would fall behind. An encoding that is unbiased, with a variance of b
/// times the square of what it encodes, is added 1 / (1 + b) times, with which it brings the copy closer to the model
/// on average; where b is unbounded, or a biased encoding may be off by as much as it encodes, the parameters travel as
/// they are. Numbers that are rounded to 16 bits do not: each comes closer, but for the smallest and largest.
///
/// Gradients on a device are encoded there if the compression codes there (Compression::codes_on), and what comes for a
/// worker's copy on a device is decoded there if the compressor does that (Compressor::decodes_on), with the bits of
/// the processor: a server does not notice where its workers compute. All else is done on the host, to which gradients
/// that travel as they are come down in one copy.
///
/// Used by one thread, whose current stream on such a device is a coding_stream() if tensors can be coded there.
/// Everything that reads fails with: malformed, unsupported, internal (on a device).
class TensorCoder {
 public:
  /// `compression` must outlive this object.
  TensorCoder(const compressors::Compression& compression, const CodingSetting& setting)
      : compression_(compression), setting_(setting) {}

  /// The most bytes that a tensor of so many entries takes in a message.
  static std::uint64_t bytes_max(std::uint64_t entries);

  /// Appends a worker's gradients, which lie beside each other, after what its memory makes of them. Returns the bytes
  /// of each. Fails as Memory and Compressor do; names the tensor.
  Result<std::vector<std::size_t>> write_gradients(std::span<const Gradient> gradients, const Turn& turn, Bytes& out);
  /// Adds `weight` times a gradient to `mean`, which may become sparse if it has no entries yet (`fresh`). Returns the
  /// number of entries that have come.
  Result<std::uint64_t> read_gradient(Reader& body, std::uint32_t tensor, const Turn& turn, float weight, bool fresh,
                                      Mean& mean);

  /// Appends how `model` differs from `copy`, and changes the copy as the worker will change its own. `pushed`: how
  /// many entries have come since this was last done for this copy.
  Result<void> write_difference(std::uint32_t tensor, const at::Tensor& model, at::Tensor& copy, const Turn& turn,
                                std::uint64_t pushed, Bytes& out);
  Result<void> read_difference(Reader& body, std::uint32_t tensor, const Turn& turn, at::Tensor& copy);

 private:
  /// A gradient that was encoded on a device.
  struct Encoded {
    std::size_t index = 0;  ///< among those that are pushed
    Bytes payload;
    compressors::Selection entries;  ///< of a sparse compressor
  };

  compressors::Compressor& compressor() const { return *compression_.compressor; }
  compressors::Round round_of(const Turn& turn, std::uint32_t tensor) const;
  bool travels_as_is(const at::Tensor& tensor, const compressors::Round& round) const;
  float factor_of_difference(const at::Tensor& tensor, const compressors::Round& round) const;
  bool chooses_difference(const at::Tensor& tensor) const;
  Result<void> write_gradient(std::uint32_t tensor, const at::Tensor& gradient, const Turn& turn, Bytes& out);
  Result<void> encode_there(std::span<const Gradient> gradients, const Turn& turn);
  Result<void> encode_passes(std::span<const Gradient> gradients, std::span<const at::Tensor> inputs,
                             std::span<compressors::Round> rounds);
  Result<void> read_as_is(Reader& body, at::Tensor& copy);
  Result<void> encode(const at::Tensor& tensor, const compressors::Round& round, Bytes& out);
  Result<void> encode_largest(const at::Tensor& tensor, const compressors::Round& round, std::uint64_t count,
                              Bytes& out);

  const compressors::Compression& compression_;
  const CodingSetting setting_;
  std::vector<Encoded> encoded_;  ///< in the order of the gradients
  compressors::Selection entries_;
  Bytes payload_;
  Bytes scratch_;
};

}  // namespace weir::training::servers
