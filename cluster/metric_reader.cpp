#include "cluster/metric_reader.hpp"

#include <algorithm>
#include <limits>

#include "base/errc.hpp"
#include "cluster/store.hpp"

namespace weir::cluster {
namespace {

constexpr std::uint32_t page_rows = 4096;

class StoreMetricReader final : public MetricReader {
 public:
  StoreMetricReader(std::shared_ptr<Store> store, MetricQuery query, std::vector<SeriesRecord> series,
                    bool steps_repeat)
      : store_(std::move(store)), query_(std::move(query)), series_(std::move(series)), steps_repeat_(steps_repeat) {}

  net::awaitable<Result<std::optional<Page>>> next() override {
    if (current_ == series_.size()) co_return std::optional<Page>();
    const SeriesRecord& series = series_[current_];
    if (position_ == 0 && steps_repeat_) {
      auto loaded = co_await load_step_backs(series);
      if (!loaded) co_return loaded.error();
    }
    Page page{series.name, series.worker, {}};
    if (position_ < series.rows) {
      const auto wanted = std::min<std::uint64_t>(page_rows, series.rows - position_);
      auto rows = co_await store_->metric_rows(series, position_, static_cast<std::uint32_t>(wanted));
      if (!rows) co_return rows.error();
      if (rows->size() != wanted) co_return Error{Errc::not_found, "the job was deleted while its metrics were read"};
      for (const MetricRow& row : *rows) {
        ++position_;
        if (const double x = place(row); wants(x) && holds(row))
          page.points.push_back({x, row.value, row.value, row.value});
      }
    }
    if (position_ == series.rows) {
      ++current_;
      position_ = 0;
    }
    co_return page;
  }

 private:
  net::awaitable<Result<void>> load_step_backs(SeriesRecord series) {
    auto found = co_await store_->step_backs(std::move(series));
    if (!found) co_return found.error();
    step_backs_ = std::move(*found);
    next_step_back_ = 0;
    // Replaces each step by the earliest one at this or a later step back.
    auto least = std::numeric_limits<std::uint64_t>::max();
    for (auto back = step_backs_.rbegin(); back != step_backs_.rend(); ++back) {
      least = std::min(least, back->step);
      back->step = least;
    }
    co_return Result<void>();
  }

  double place(const MetricRow& row) const {
    switch (query_.x) {
      case MetricAxis::wall: return row.wall_seconds;
      case MetricAxis::bytes: return static_cast<double>(row.wire_bytes);
      default: return static_cast<double>(row.step);
    }
  }

  bool wants(double x) const { return (!query_.from || x >= *query_.from) && (!query_.to || x <= *query_.to); }

  /// True unless a restart superseded the row at `position_`. To be called for the rows in order.
  bool holds(const MetricRow& row) {
    while (next_step_back_ < step_backs_.size() && step_backs_[next_step_back_].position <= position_)
      ++next_step_back_;
    return next_step_back_ == step_backs_.size() || row.step < step_backs_[next_step_back_].step;
  }

  const std::shared_ptr<Store> store_;
  const MetricQuery query_;
  const std::vector<SeriesRecord> series_;
  const bool steps_repeat_;
  std::size_t current_ = 0;     ///< index of the series that is being read
  std::uint64_t position_ = 0;  ///< of the last row read in that series
  std::vector<StepBack> step_backs_;
  std::size_t next_step_back_ = 0;
};

}  // namespace

net::awaitable<Result<std::unique_ptr<MetricReader>>> read_metrics(std::shared_ptr<Store> store, MetricQuery query,
                                                                   bool restarted) {
  auto series = co_await store->series(query);
  if (!series) co_return series.error();
  const bool steps_repeat = restarted && query.x == MetricAxis::step;
  co_return std::make_unique<StoreMetricReader>(std::move(store), std::move(query), std::move(*series), steps_repeat);
}

}  // namespace weir::cluster
