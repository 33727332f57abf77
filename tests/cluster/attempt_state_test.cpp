#include "cluster/attempt/state.hpp"

#include <gtest/gtest.h>

namespace weir::cluster {
namespace {

using Step = AttemptState::Step;

TEST(AttemptState, ShowsThePhasesOfAJobThatTrainsAndStops) {
  AttemptState state;
  EXPECT_EQ(state.phase(), JobPhase::spawning);
  EXPECT_TRUE(state.enter(Step::initialising));
  EXPECT_EQ(state.phase(), JobPhase::initialising);
  EXPECT_FALSE(state.enter(Step::joining)) << "the workers connect: still initialising";
  EXPECT_TRUE(state.enter(Step::training));
  EXPECT_EQ(state.phase(), JobPhase::training);
  EXPECT_FALSE(state.is_ending());
  EXPECT_TRUE(state.enter(Step::stopping));
  EXPECT_EQ(state.phase(), JobPhase::stopping);
  EXPECT_FALSE(state.enter(Step::taking_down));
  EXPECT_TRUE(state.is_ending());
  EXPECT_FALSE(state.is_over());
  state.enter(Step::over);
  EXPECT_TRUE(state.is_over());
  EXPECT_EQ(state.phase(), JobPhase::stopping);
}

TEST(AttemptState, ShowsAStopFromTheRequestOnWhateverTheStepIs) {
  AttemptState state;
  state.enter(Step::initialising);
  EXPECT_TRUE(state.request_stop());
  EXPECT_EQ(state.phase(), JobPhase::stopping);
  EXPECT_FALSE(state.request_stop()) << "a repeat";
  for (const Step step : {Step::joining, Step::training, Step::taking_down, Step::over}) {
    EXPECT_FALSE(state.enter(step));
    EXPECT_EQ(state.phase(), JobPhase::stopping);
  }
}

TEST(AttemptState, MayBeTakenDownFromAnyStep) {
  for (const Step step : {Step::spawning, Step::initialising, Step::joining, Step::training, Step::stopping}) {
    AttemptState state;
    for (const Step before : {Step::initialising, Step::joining, Step::training, Step::stopping}) {
      if (before <= step) state.enter(before);
    }
    ASSERT_EQ(state.step(), step);
    EXPECT_FALSE(state.enter(Step::taking_down)) << "the phase stays";
  }
}

TEST(AttemptStateDeathTest, GoesNeitherBackNorOverSteps) {
  AttemptState state;
  EXPECT_DEATH(state.enter(Step::training), "may follow");
  state.enter(Step::initialising);
  EXPECT_DEATH(state.enter(Step::spawning), "may follow");
  state.enter(Step::over);
  EXPECT_DEATH(state.enter(Step::taking_down), "may follow");
}

TEST(AttemptState, KeepsTheFirstSignAndTheFirstCause) {
  AttemptState state;
  EXPECT_FALSE(state.has_failed());
  state.show_sign("worker 1 lost its peer");
  state.show_sign("worker 2 lost its peer");
  EXPECT_TRUE(state.has_failed());
  EXPECT_FALSE(state.knows_cause());
  EXPECT_EQ(state.reason(), "worker 1 lost its peer");
  EXPECT_TRUE(state.is_echo("cancelled: worker 1 lost its peer"));
  EXPECT_FALSE(state.is_echo("worker 2 lost its peer"));
  state.blame("worker 0 was killed");
  state.blame("worker 0 is gone");
  EXPECT_TRUE(state.knows_cause());
  EXPECT_EQ(state.reason(), "worker 0 was killed");
}

TEST(AttemptState, WhatDiesAfterTheCauseIsKnownIsNotTheCause) {
  AttemptState state;
  state.blame("the data is missing");
  state.note_loss();
  EXPECT_FALSE(state.has_lost());
  state.note_lost_gpu("GPU-a0");
  EXPECT_TRUE(state.has_lost()) << "it was there before the cause";
  state.note_gpu_back("GPU-a0");
  EXPECT_TRUE(state.has_lost()) << "it has failed for it";
}

TEST(AttemptState, AGpuThatIsThereAgainIsNotLost) {
  AttemptState state;
  state.note_lost_gpu("GPU-a0");
  state.note_lost_gpu("GPU-a1");
  state.note_gpu_back("GPU-a0");
  EXPECT_TRUE(state.has_lost()) << "the other one";
  state.note_gpu_back("GPU-a1");
  EXPECT_FALSE(state.has_lost());
  state.note_loss();
  state.note_gpu_back("GPU-a1");
  EXPECT_TRUE(state.has_lost()) << "a worker";
}

TEST(AttemptState, WithoutASignNothingIsAnEcho) { EXPECT_FALSE(AttemptState().is_echo("")); }

}  // namespace
}  // namespace weir::cluster
