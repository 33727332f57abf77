#include "api/metric_source.hpp"

#include "base/errc.hpp"

namespace weir::api {
namespace {

/// Pages are joined to pieces of at least this size, since a job may have thousands of series with a few points each.
constexpr std::size_t piece_bytes = 64 * 1024;

class MetricSource final : public BodySource {
 public:
  MetricSource(std::unique_ptr<cluster::MetricReader> reader, MetricText text)
      : reader_(std::move(reader)), text_(std::move(text)) {}

  net::awaitable<Result<std::string>> next() override {
    std::string piece;
    // Without a point in the range asked for, there may be much to read before there is something to send.
    while (!ended_ && piece.size() < piece_bytes) {
      if (abandoned_) co_return Error{Errc::cancelled, "nobody reads the metrics any more"};
      auto page = co_await reader_->next();
      if (!page) co_return page.error();
      if (*page) {
        text_.add(piece, (*page)->name, (*page)->worker, (*page)->points);
      } else {
        text_.end(piece);
        ended_ = true;
      }
    }
    co_return piece;
  }

  void abandon() override { abandoned_ = true; }

 private:
  const std::unique_ptr<cluster::MetricReader> reader_;
  MetricText text_;
  bool ended_ = false;
  bool abandoned_ = false;
};

}  // namespace

std::unique_ptr<BodySource> metric_source(std::unique_ptr<cluster::MetricReader> reader, MetricText text) {
  return std::make_unique<MetricSource>(std::move(reader), std::move(text));
}

}  // namespace weir::api
