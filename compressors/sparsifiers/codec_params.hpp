#pragma once

#include "compressors/codecs/index_codec.hpp"
#include "compressors/codecs/value_codec.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// Adds the parameters `index_codec` and `value_codec` for Options that have a SparseCodecs `codecs`.
template <class Options>
protocol::Params<Options> with_codecs(protocol::Params<Options> params) {
  params
      .choice(
          "index_codec", [](Options& options) -> std::string& { return options.codecs.index; }, index_codec_names(),
          "How positions are written; auto takes the shortest.")
      .choice(
          "value_codec", [](Options& options) -> std::string& { return options.codecs.value; }, value_codec_names(),
          "How values are written; all but fp32 round.");
  return params;
}

}  // namespace weir::compressors
