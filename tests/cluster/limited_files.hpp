#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

namespace weir::cluster {

/// The files of this process are no longer than `bytes` while one of these lives.
class LimitedFiles {
 public:
  explicit LimitedFiles(rlim_t bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &usual_), 0);
    const rlimit small{bytes, usual_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~LimitedFiles() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &usual_), 0);
    ::signal(SIGXFSZ, handler_);
  }
  LimitedFiles(const LimitedFiles&) = delete;
  LimitedFiles& operator=(const LimitedFiles&) = delete;

 private:
  sighandler_t handler_ = ::signal(SIGXFSZ, SIG_IGN);
  rlimit usual_{};
};

}  // namespace weir::cluster
