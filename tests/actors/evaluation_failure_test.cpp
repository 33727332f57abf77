// An evaluation that fails while a later model waits for its own.

#include <gtest/gtest.h>
#include <torch/script.h>

#include <cstdlib>
#include <string>

#include "job_cluster.hpp"
#include "protocol/worker_environment.hpp"
#include "tests/training/folder.hpp"

namespace weir::actors {
namespace {

/// A module that is used for a while, and then fails, if it is given more examples than when it was tried out.
torch::jit::Module failing_in_use() {
  torch::jit::Module module("Failing");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("weight", torch::zeros({4, 64}).requires_grad_(), false);
  module.define(R"(
    def forward(self, x: Tensor) -> Tensor:
        if not self.training and x.size(0) > 2:
            n = 0
            for i in range(30000000):
                n += i % 3
            assert n < 0, "it is not to be used"
        return torch.linear(x.flatten(1), self.weight)
  )");
  return module;
}

TEST(Evaluation, ThatFailsEndsTheJobThoughAnotherModelWaits) {
  const training::testing::Folder folder;
  failing_in_use().save(folder / "failing.pt");
  ::setenv(protocol::worker_environment::modules.data(), folder.path().c_str(), 1);
  auto spec = testing::job("none");
  spec["model"] = {{"name", "torchscript"}, {"params", {{"file", "failing.pt"}}}};
  spec["evaluation"]["every_steps"] = 1;
  testing::Cluster cluster(2);
  cluster.start(spec);
  ASSERT_TRUE(cluster.wait_for_ends());
  ::unsetenv(protocol::worker_environment::modules.data());
  EXPECT_EQ(cluster.book.ends[0].outcome, protocol::Outcome::failed);
  EXPECT_NE(cluster.book.ends[0].cause.find("it is not to be used"), std::string::npos) << cluster.book.ends[0].cause;
}

}  // namespace
}  // namespace weir::actors
