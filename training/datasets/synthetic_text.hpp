#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "protocol/params.hpp"
#include "training/datasets/shape.hpp"

namespace weir::training {

class Dataset;

/// A generated text: a Markov chain, in which each token has a few others that may follow it, the first of them most
/// often. Now and then any token follows. Whoever has learned the chain is right in about `1 - noise` times 1/2 of all
/// cases (with more than one follower); guessing is right once in `vocabulary`. The same parameters give the same text
/// on every machine.
struct SyntheticText {
  static constexpr std::string_view type_name = "synthetic-text";
  static constexpr std::string_view summary = "a text made up on the spot by a Markov chain; needs no files";
  static constexpr bool needs_path = false;
  static constexpr bool has_files = false;

  struct Options {
    std::int64_t context = 64;
    std::int64_t vocabulary = 32;
    std::int64_t followers = 4;
    double noise = 0.05;
    std::int64_t train_examples = 4096;
    std::int64_t test_examples = 512;
    std::int64_t seed = 1;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .integer("context", &Options::context, {.minimum = 1, .maximum = 4096}, "Tokens of an example.")
        .integer("vocabulary", &Options::vocabulary, {.minimum = 2, .maximum = 256}, "How many tokens there are.")
        .integer("followers", &Options::followers, {.minimum = 1, .maximum = 16},
                 "How many tokens may follow each; every one half as often as the one before.")
        .number("noise", &Options::noise, {.minimum = 0, .maximum = 1}, "Share of tokens that follow no rule.")
        .integer("train_examples", &Options::train_examples, {.minimum = 1, .maximum = 1'000'000},
                 "examples to learn from")
        .integer("test_examples", &Options::test_examples, {.minimum = 1, .maximum = 1'000'000},
                 "examples to be tested on")
        .integer("seed", &Options::seed, {.minimum = 0, .maximum = INT64_MAX}, "other seeds give other chains");
  }
  static DatasetShape shape(const Options& options, std::string_view) {
    return {{.classes = options.vocabulary, .tokens = options.context},
            static_cast<std::uint64_t>(options.train_examples)};
  }
  /// `path` must be empty: there are no files.
  static Result<std::unique_ptr<Dataset>> make(const Options& options, const std::string& path);
};

}  // namespace weir::training
