#include "cluster/gpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <span>

#include "base/errc.hpp"
#include "cluster/node.hpp"
#include "tests/cluster/fake_gpus.hpp"

namespace weir::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<protocol::Gpu> four = {{0, "GPU-aa01", "NVIDIA H200", 1000},
                                         {1, "GPU-ab02", "NVIDIA H200", 1000},
                                         {2, "GPU-bb03", "NVIDIA H200", 1000},
                                         {3, "GPU-bb04", "NVIDIA L4", 500}};

std::vector<std::uint32_t> visible(const std::optional<std::string>& value) {
  std::vector<std::uint32_t> found;
  for (const auto& gpu : visible_gpus(four, value).gpus) found.push_back(gpu.index);
  return found;
}

TEST(VisibleGpus, IndicesAndUuidsSelectInTheirOrder) {
  EXPECT_THAT(visible(std::nullopt), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(visible("2,0"), ElementsAre(2, 0));
  EXPECT_THAT(visible(" 3 , 1 "), ElementsAre(3, 1));
  EXPECT_THAT(visible("GPU-bb04,GPU-aa01"), ElementsAre(3, 0));
  EXPECT_THAT(visible("GPU-aa,GPU-bb03"), ElementsAre(0, 2)) << "a prefix that only one has";
}

TEST(VisibleGpus, NumbersOfGpusOfSeveralKindsMayBeMeantOtherwise) {
  EXPECT_THAT(visible_gpus(four, "2,0").remark, HasSubstr("unless CUDA_DEVICE_ORDER is PCI_BUS_ID"));
  EXPECT_EQ(visible_gpus(four, "GPU-bb04,GPU-aa01").remark, "");
  EXPECT_EQ(visible_gpus(std::span(four).first(3), "2,0").remark, "") << "all are alike";
}

TEST(VisibleGpus, NothingIsSelectedByTheWordsForNone) {
  for (const char* none : {"", "  ", "NoDevFiles", "-1"}) {
    EXPECT_THAT(visible(none), IsEmpty()) << none;
    EXPECT_EQ(visible_gpus(four, none).remark, "") << "that is what it is for";
  }
}

TEST(VisibleGpus, TheListEndsAtWhatIsNoGpu) {
  EXPECT_THAT(visible("1,7,0"), ElementsAre(1));
  EXPECT_THAT(visible("1,-1,0"), ElementsAre(1));
  EXPECT_THAT(visible("0,x"), ElementsAre(0));
  EXPECT_THAT(visible("0,,1"), ElementsAre(0));
  EXPECT_THAT(visible("GPU-bb,0"), IsEmpty()) << "two have that prefix";
  EXPECT_THAT(visible("GPU-zz"), IsEmpty());
  EXPECT_THAT(visible("99999999999999999999"), IsEmpty());
  EXPECT_EQ(visible_gpus(four, "1,7,0").remark,
            "CUDA_VISIBLE_DEVICES is \"1,7,0\", which ends for CUDA before \"7\": that is no GPU here");
}

TEST(VisibleGpus, AGpuNamedTwiceMakesItNone) {
  EXPECT_THAT(visible("0,1,0"), IsEmpty());
  EXPECT_THAT(visible_gpus(four, "0,1,0").remark, HasSubstr("names a GPU twice"));
}

TEST(VisibleGpus, PartsOfGpusAreNotSupported) {
  for (const char* value : {"MIG-aa", "0,MIG-GPU-aa01/1/0"}) {
    EXPECT_THAT(visible(value), IsEmpty());
    EXPECT_THAT(visible_gpus(four, value).remark, HasSubstr("MIG) are not supported yet, so this node offers no GPU"));
  }
}

TEST(GpuType, IsTheNameInLowerCaseWithHyphens) {
  EXPECT_EQ(gpu_type("NVIDIA H200"), "nvidia-h200");
  EXPECT_EQ(gpu_type("NVIDIA A100-SXM4-80GB"), "nvidia-a100-sxm4-80gb");
  EXPECT_EQ(gpu_type("  Quadro (T1000) "), "quadro-t1000");
  EXPECT_EQ(gpu_type("??"), "");
}

/// What a node of that machine offers.
struct Offered {
  explicit Offered(std::vector<protocol::Gpu> gpus, protocol::Resources asked = {},
                   const std::optional<std::string>& variable = std::nullopt) {
    options.resources = std::move(asked);
    probe = std::make_shared<FakeGpuProbe>(std::move(gpus));
    outcome = offer_gpus(options, std::shared_ptr<GpuProbe>(probe), variable);
  }

  NodeOptions options;
  std::shared_ptr<FakeGpuProbe> probe;
  Result<std::vector<std::string>> outcome = std::vector<std::string>();
};

TEST(OfferGpus, ANodeOffersWhatIsFound) {
  const Offered node({four[0], four[1]});
  EXPECT_THAT(node.outcome.value(), IsEmpty());
  EXPECT_THAT(node.options.gpus.offered, ElementsAre(four[0], four[1]));
  EXPECT_EQ(node.options.gpus.probe, node.probe);
  EXPECT_EQ(node.options.resources.at("gpu"), 2);
  EXPECT_EQ(node.options.labels.at("gpu_type"), "nvidia-h200");
}

TEST(OfferGpus, TheOperatorMayOfferFewer) {
  const Offered one(four, {{"gpu", 1}}, "2,0");
  EXPECT_THAT(one.options.gpus.offered, ElementsAre(four[2])) << "the first of those that are visible";
  const Offered none(four, {{"gpu", 0}});
  EXPECT_THAT(none.options.gpus.offered, IsEmpty());
  EXPECT_EQ(none.options.gpus.probe, nullptr);
  EXPECT_EQ(none.options.resources.at("gpu"), 0);
  EXPECT_FALSE(none.options.labels.contains("gpu_type"));
}

TEST(OfferGpus, MoreThanThereAreIsRefused) {
  EXPECT_EQ(Offered(four, {{"gpu", 5}}).outcome.error().context,
            "gpu=5 is more than this node can offer: this machine has 4 GPUs");
  const Offered hidden(four, {{"gpu", 2}}, "1");
  EXPECT_EQ(hidden.outcome.error().code, Errc::invalid_argument);
  EXPECT_EQ(hidden.outcome.error().context,
            "gpu=2 is more than this node can offer: CUDA_VISIBLE_DEVICES is \"1\", which leaves 1 GPU of the "
            "machine's 4");
  EXPECT_THAT(Offered(four, {{"gpu", 1.5}}).outcome.error().context, HasSubstr("a node offers whole GPUs"));
  EXPECT_THAT(Offered({}, {{"gpu", 1}}).outcome.error().context, HasSubstr("this machine has 0 GPUs"));
}

TEST(OfferGpus, WithoutADriverGpusAreAMereNumber) {
  NodeOptions options;
  options.resources = {{"gpu", 2}};
  const Error none{Errc::not_found, "there is no NVIDIA driver"};
  EXPECT_THAT(offer_gpus(options, none, std::nullopt).value(),
              ElementsAre("gpu=2 is counted only, and no worker gets a device: there is no NVIDIA driver"));
  EXPECT_EQ(options.resources.at("gpu"), 2);
  EXPECT_THAT(options.gpus.offered, IsEmpty());
  options.resources.clear();
  EXPECT_THAT(offer_gpus(options, none, std::nullopt).value(), IsEmpty()) << "most nodes have none";
  EXPECT_FALSE(options.resources.contains("gpu"));
  EXPECT_THAT(offer_gpus(options, none, "-1").value(), IsEmpty());
  EXPECT_THAT(offer_gpus(options, none, "0").value(),
              ElementsAre("no GPU of this machine is offered: there is no NVIDIA driver"))
      << "who names GPUs expects some";
}

TEST(OfferGpus, ADriverInTroubleIsTold) {
  NodeOptions options;
  const Error old{Errc::unsupported, "the NVIDIA driver is too old"};
  EXPECT_THAT(offer_gpus(options, old, std::nullopt).value(),
              ElementsAre("no GPU of this machine is offered: the NVIDIA driver is too old"));
  EXPECT_FALSE(options.resources.contains("gpu"));
}

TEST(OfferGpus, GpusOfDifferentKindsAreTold) {
  const Offered mixed({four[2], four[3]});
  EXPECT_THAT(mixed.outcome.value(),
              ElementsAre(HasSubstr("GPU 3 (NVIDIA L4, GPU-bb04) is another than GPU 2 (NVIDIA")));
  EXPECT_EQ(mixed.options.labels.at("gpu_type"), "nvidia-h200");
  NodeOptions labelled;
  labelled.labels = {{"gpu_type", "mine"}};
  const auto probe = std::make_shared<FakeGpuProbe>(std::vector{four[2], four[3]});
  EXPECT_THAT(offer_gpus(labelled, std::shared_ptr<GpuProbe>(probe), std::nullopt).value(), IsEmpty());
  EXPECT_EQ(labelled.labels.at("gpu_type"), "mine");
}

/// A driver that answers when a test lets it: "n readings have begun before this one" as utilisation.
class StuckProbe final : public GpuProbe {
 public:
  Result<std::vector<Reading>> read() override {
    const int before = begun_++;
    free_.wait(false);
    return std::vector<Reading>{{four[0], {.utilization = before}}};
  }
  void let_go() {
    free_ = true;
    free_.notify_all();
  }
  int begun() const { return begun_; }

 private:
  std::atomic<int> begun_ = 0;
  std::atomic<bool> free_ = false;
};

TEST(GpuDeadline, ADriverThatDoesNotAnswerStopsNobody) {
  const auto stuck = std::make_shared<StuckProbe>();
  const auto probe = with_deadline(stuck, std::chrono::milliseconds(20));
  for (int i = 0; i < 3; ++i) {
    const auto read = probe->read();
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Errc::deadline_exceeded);
    EXPECT_EQ(read.error().context, "the driver has not answered for 20 ms");
  }
  EXPECT_LE(stuck->begun(), 1) << "one thread waits, however often it is asked";
  stuck->let_go();
  for (;;) {
    const auto read = probe->read();
    if (!read) continue;
    EXPECT_EQ(*read->front().sample.utilization, stuck->begun() - 1) << "not an answer to an earlier question";
    EXPECT_GE(stuck->begun(), 2);
    break;
  }
}

TEST(GpuDeadline, WhatADriverSaysIsPassedOn) {
  const auto fake = std::make_shared<FakeGpuProbe>(four);
  const auto probe = with_deadline(fake, std::chrono::hours(1));
  EXPECT_EQ(probe->read()->size(), four.size());
  fake->failure = Error{Errc::io, "GPU is lost"};
  EXPECT_EQ(probe->read().error().context, "GPU is lost");
  fake->failure.reset();
  EXPECT_EQ(probe->read()->size(), four.size());
}

}  // namespace
}  // namespace weir::cluster
