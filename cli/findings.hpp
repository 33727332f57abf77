#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weir::cli {

/// What `weir doctor` has found, in that order. After a `bad` one something must be done, after a `note` perhaps.
class Findings {
 public:
  void good(const std::string& what, const std::string& found) { add("ok", what, found, ""); }
  void note(const std::string& what, const std::string& found, const std::string& advice) {
    add("note", what, found, advice);
  }
  void bad(const std::string& what, const std::string& found, const std::string& advice) {
    add("bad", what, found, advice);
    healthy_ = false;
  }
  bool healthy() const { return healthy_; }
  nlohmann::json json() const { return {{"healthy", healthy_}, {"checks", checks_}}; }
  std::string str() const;

 private:
  void add(const char* level, const std::string& what, const std::string& found, const std::string& advice) {
    checks_.push_back({{"level", level}, {"what", what}, {"found", found}, {"advice", advice}});
  }

  nlohmann::json checks_ = nlohmann::json::array();
  bool healthy_ = true;
};

/// Whether this machine's GPUs can be used: the driver, what it lets CUDA see, and what weir-worker (`worker`; empty:
/// there is none) finds of LibTorch, cuDNN and NCCL.
void check_gpus(const std::string& worker, Findings& findings);

}  // namespace weir::cli
