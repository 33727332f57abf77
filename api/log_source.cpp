#include "api/log_source.hpp"

#include <algorithm>

#include "base/errc.hpp"

namespace weir::api {
namespace {

constexpr std::uint64_t piece_bytes = 256 * 1024;

class LogSource final : public BodySource {
 public:
  LogSource(cluster::Head& head, std::string job, std::uint32_t worker, std::uint64_t offset, std::uint64_t stop)
      : head_(head), job_(std::move(job)), worker_(worker), offset_(offset), stop_(stop) {}

  net::awaitable<Result<std::string>> next() override {
    if (offset_ >= stop_) co_return std::string();
    auto slice = co_await head_.logs(job_, worker_, offset_, std::min(piece_bytes, stop_ - offset_));
    if (!slice) co_return slice.error();
    // An empty piece would end the body as if it were whole.
    if (slice->text.empty()) co_return Error{Errc::io, "the log became shorter while it was sent"};
    offset_ = slice->next;
    co_return std::move(slice->text);
  }

 private:
  cluster::Head& head_;
  std::string job_;
  std::uint32_t worker_;
  std::uint64_t offset_;
  std::uint64_t stop_;
};

}  // namespace

std::unique_ptr<BodySource> log_source(cluster::Head& head, std::string job, std::uint32_t worker, std::uint64_t offset,
                                       std::uint64_t stop) {
  return std::make_unique<LogSource>(head, std::move(job), worker, offset, stop);
}

}  // namespace weir::api
