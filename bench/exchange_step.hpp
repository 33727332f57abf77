#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/fabric.hpp"

namespace weir::bench {

/// Steps of a job without a model: all ranks exchange gradients as a job's do, with training::Exchange. Each rank calls
/// step() on a thread of its own.
class ExchangeStep {
 public:
  struct Options {
    std::string topology;    ///< what a job can name, `auto` among it
    std::string compressor;  ///< with its default memory
    std::size_t gradient_bytes = 0;
  };

  /// `group` must outlive it.
  ExchangeStep(std::span<const std::unique_ptr<collectives::Fabric>> group, const Options& options);
  ~ExchangeStep();

  /// Throws what a result without a value throws.
  void step(std::uint32_t rank);

  /// Whether the ranks have tried all plans that they want to try. Between two steps, as routes().
  bool settled() const;
  /// "float32 over ring, 4 buckets"
  std::string routes() const;

 private:
  struct Rank;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace weir::bench
