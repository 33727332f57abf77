#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/errc.hpp"
#include "base/result.hpp"
#include "protocol/params.hpp"
#include "training/datasets/shape.hpp"

namespace weir::training {

class Model;

/// A module that somebody has saved as TorchScript, from the directory that the operator of the worker's node named
/// when it was started (worker_environment::modules). A job says which file, never where: what is executed is the
/// operator's choice. Training begins with the parameters that are in the file, whatever the seed is.
///
/// The head knows neither the file nor its shapes. A worker reads it, which takes its bytes for untrusted, and tries
/// the module on two examples before the training begins.
struct TorchScript {
  static constexpr std::string_view type_name = "torchscript";
  static constexpr std::string_view summary = "a TorchScript module from the directory that the operator named";
  static constexpr std::uint64_t file_bytes_max = std::uint64_t{4} << 30;

  struct Options {
    std::string file = "model.pt";
    double load_seconds = 60;  ///< for loading the module and trying it
  };
  /// In the form of protocol::Params, which has no texts.
  struct Parameters {
    using Values = Options;
    nlohmann::json schema() const {
      auto schema = protocol::empty_schema();
      schema["properties"]["file"] = {{"description", "name of a file in the directory that the node was started with"},
                                      {"type", "string"},
                                      {"minLength", 1},
                                      {"maxLength", 255},
                                      {"default", Options().file}};
      schema["properties"]["load_seconds"] = {{"description", "how long loading the module and trying it may take"},
                                              {"type", "number"},
                                              {"exclusiveMinimum", 0},
                                              {"maximum", 3600},
                                              {"default", Options().load_seconds}};
      return schema;
    }
    std::vector<protocol::Problem> read(nlohmann::json params, Options& options) const {
      if (params.is_null()) params = nlohmann::json::object();
      auto problems = protocol::check_and_complete(schema(), params);
      if (!problems.empty()) return problems;
      options.file = params.at("file").get<std::string>();
      options.load_seconds = params.at("load_seconds").get<double>();
      return problems;
    }
  };
  static Parameters params() { return {}; }

  /// Fails with: invalid_argument (the file's name has a directory in it).
  static Result<void> check(const Options& options) {
    const bool name = options.file.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
    if (name && !options.file.starts_with('.')) return {};
    return Error{Errc::invalid_argument,
                 "model torchscript: file must be a name in the directory of the node's operator, without '/' and not "
                 "beginning with '.'"};
  }

  /// Fails with: invalid_argument (as above, no directory was named, or the module does not accept such examples),
  /// not_found, malformed (the file), deadline_exceeded (its code goes on for ever, or seems to), exhausted, io.
  static Result<std::unique_ptr<Model>> make(const Options& options, const ExampleShape& shape);
};

}  // namespace weir::training
