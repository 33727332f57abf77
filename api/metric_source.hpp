#pragma once

#include <memory>

#include "api/http.hpp"
#include "api/metric_text.hpp"
#include "cluster/metric_reader.hpp"

namespace weir::api {

/// A body of all points of `reader`, which are read from the store while they are sent.
std::unique_ptr<BodySource> metric_source(std::unique_ptr<cluster::MetricReader> reader, MetricText text);

}  // namespace weir::api
