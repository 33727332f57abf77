#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/compressor.hpp"
#include "compressors/device/codes.hpp"
#include "training/exchange/step.hpp"
#include "training/models/model.hpp"
#include "training/side_stream.hpp"

namespace weir::training {

/// Gossip with compressed differences (CHOCO, Koloskova, Stich and Jaggi, ICML 2019). All neighbours of a rank i have
/// the same estimate h_i of its parameters x_i, which begins as those that all start with. Each step brings the
/// estimates nearer to the parameters and these nearer to each other:
///
///     q_i = C(x_i - h_i),   h_j += q_j for the rank and all neighbours,   x_i += gamma * sum_j w_ij (h_j - h_i)
///
/// In place of the neighbours' estimates a rank keeps that sum, which each q changes by w_ij (q_j - q_i). What an
/// unbiased compressor yields is divided by 1 + its variance factor, which makes it a contraction; likewise that of any
/// whose error may be larger than the tensor. A tensor that goes dense in a round is sent as the difference itself.
///
/// Estimates, sums and differences of a model on a device are there, if the compressor codes and decodes there. They
/// have the processor's bits, so that neighbours may compute anywhere.
///
/// Has the compressed tensors of one rank's model. Used by the compute thread.
class Choco {
 public:
  struct Options {
    std::uint64_t seed = 0;
    compressors::TrainingCourse course = {};
    std::uint32_t rank = 0;
    std::uint64_t graph = 0;  ///< its fingerprint
    std::vector<std::uint32_t> neighbours;
    std::vector<float> weights;  ///< of neighbours
  };

  /// `parameters`: all of the model, which are equal on all ranks now; `coded`: positions of those that go this way;
  /// `steps`: their gamma. `compressor` must outlive this object.
  Choco(std::span<const NamedTensor> parameters, std::span<const std::uint32_t> coded, std::vector<double> steps,
        compressors::Compressor& compressor, Options options);

  /// Appends what this rank sends of the tensors from number `first` to `last` of the coded ones, without that one, and
  /// where each ends. Fails with what the compressor fails with.
  Result<void> encode(const Step& step, std::size_t first, std::size_t last, Bytes& out,
                      std::vector<std::size_t>& ends);

  /// Takes what this rank has encoded last, `own` with `ends`, and what the neighbours have sent of the same tensors,
  /// and moves these towards the neighbours' ones. Fails with: malformed and unsupported (a neighbour's payload; names
  /// it).
  Result<void> take(const Step& step, std::size_t first, std::size_t last, BytesView own,
                    std::span<const std::size_t> ends, std::span<const Bytes> received);

  /// How many bytes the tensors may take.
  std::size_t bytes_max(std::size_t first, std::size_t last) const;

  std::vector<NamedTensor> save() const;
  /// Fails with: malformed (not what save() returned), conflict (it is of another graph).
  Result<void> restore(std::span<const NamedTensor> state);

  /// The factor for what the compressor yields.
  static double scale_of(const compressors::Compressor& compressor, std::uint64_t entries);

 private:
  std::vector<NamedTensor> sums() const;

  struct Coded {
    std::uint32_t parameter = 0;
    NamedTensor value;
    at::Tensor estimate;             ///< h_i
    at::Tensor pull;                 ///< sum_j w_ij (h_j - h_i)
    at::Tensor difference;           ///< x_i - h_i of the step
    compressors::Selection entries;  ///< that a sparse compressor has sent
    float scale = 1;                 ///< of what is decoded
    double step = 1;                 ///< gamma
  };

  compressors::Round round_of(const Step& step, const Coded& coded, std::uint32_t rank) const;
  bool goes_dense(const Step& step, const Coded& coded) const;
  Result<void> begin_there(const Step& step, std::span<Coded> bucket);
  Result<void> take_own(const Step& step, Coded& coded, BytesView payload);
  Result<void> take_of(const Step& step, Coded& coded, std::size_t neighbour, std::size_t own_bytes, BytesView& stream);

  compressors::Compressor& compressor_;
  const Options options_;
  float weights_sum_ = 0;
  std::vector<Coded> coded_;
  std::optional<SideStream> beside_;  ///< in which tensors on a device are coded
  std::vector<compressors::device::ToAdd> waiting_;
};

}  // namespace weir::training
