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

/// A text of one's own, character by character: each byte that occurs in it is a token.
struct TextDataset {
  static constexpr std::string_view type_name = "text";
  static constexpr std::string_view summary = "text files of your own, to be predicted byte by byte";
  static constexpr bool needs_path = true;

  struct Options {
    std::int64_t context = 128;
    std::int64_t stride = 0;
    std::int64_t vocabulary = 256;
    double test_share = 0.1;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .integer("context", &Options::context, {.minimum = 1, .maximum = 65536}, "Tokens of an example.")
        .integer("stride", &Options::stride, {.minimum = 0, .maximum = 65536},
                 "Tokens from the beginning of one training example to that of the next; 0: as many as it has.")
        .integer("vocabulary", &Options::vocabulary, {.minimum = 2, .maximum = 256},
                 "How many different tokens the model is made for; the text may have fewer.")
        .number("test_share", &Options::test_share, {.exclusive_minimum = 0, .exclusive_maximum = 1},
                "Share of the text, at its end, that is for testing.");
  }
  static DatasetShape shape(const Options& options, std::string_view) {
    return {{.classes = options.vocabulary, .tokens = options.context}, std::nullopt};
  }
  /// `path` is a file, or a folder whose files that end in .txt are read as one text, in the order of their names.
  static Result<std::unique_ptr<Dataset>> make(const Options& options, const std::string& path);
};

}  // namespace weir::training
