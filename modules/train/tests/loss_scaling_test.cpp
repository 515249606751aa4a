// SPDX-License-Identifier: Apache-2.0
// How updates change a run's loss scaler, and what a resumed run restores of it.
#include "loss_scaling.hpp"

#include <gtest/gtest.h>

#include "strategy.hpp"

namespace loss_scaling_test {

using tw::ComputeType;
using tw::train::LossScaling;
using tw::train::Progress;

LossScaling made() { return LossScaling({.compute = ComputeType::float16, .loss_scale = {.scale = 1024, .growth_interval = 2}}); }

std::vector<double> numbers(const LossScaling& scaling) {
  const auto state = scaling.state().value();
  return {state.scale, state.good_updates, state.overflows};
}

TEST(LossScaling, IsToldOfUpdatesAndOverflows) {
  LossScaling scaling = made();
  scaling.update({});
  EXPECT_EQ(numbers(scaling), (std::vector<double>{1024, 1, 0}));
  scaling.update({.skipped = true, .non_finite = true});  // does not affect the scale
  EXPECT_EQ(numbers(scaling), (std::vector<double>{1024, 1, 0}));
  scaling.update({});
  EXPECT_EQ(numbers(scaling), (std::vector<double>{2048, 0, 0}));
  scaling.update({.skipped = true, .overflow = true});
  EXPECT_EQ(numbers(scaling), (std::vector<double>{1024, 0, 1}));
}

TEST(LossScaling, GoesOnWithItsOwnOrWithTheSmallest) {
  Progress progress;
  progress.loss_scales = {64, 16, 32};
  progress.good_updates = {1, 0, 5};
  progress.overflows = {2, 4, 3};
  LossScaling scaling = made();
  scaling.restore(progress, 2, 3, /*same_layout=*/true);
  EXPECT_EQ(numbers(scaling), (std::vector<double>{32, 5, 3}));
  for (const int ranks : {1, 2, 4}) {
    scaling.restore(progress, ranks - 1, ranks, /*same_layout=*/true);
    EXPECT_EQ(numbers(scaling), (std::vector<double>{16, 0, 4})) << ranks;
  }
  scaling = made();
  scaling.restore(progress, 2, 3, /*same_layout=*/false);  // each rank may sum gradients with others than before
  EXPECT_EQ(numbers(scaling), (std::vector<double>{16, 0, 4}));
  scaling = made();
  scaling.restore({}, 0, 1, /*same_layout=*/true);  // of a run without scaling
  EXPECT_EQ(numbers(scaling), (std::vector<double>{1024, 0, 0}));
}

TEST(LossScaling, IsAShardToo) {
  LossScaling scaling = made();
  scaling.update({.skipped = true, .overflow = true});
  LossScaling other = made();
  other.take_shard({scaling.shard().value()});
  EXPECT_EQ(numbers(other), numbers(scaling));
}

TEST(LossScaling, IsOneWithoutScaler) {
  LossScaling scaling(tw::train::PrecisionOptions{.compute = ComputeType::bfloat16});
  scaling.update({.skipped = true, .overflow = true});
  EXPECT_EQ(scaling.scale(), 1);
  EXPECT_FALSE(scaling.state());
  EXPECT_FALSE(scaling.shard());
}

}  // namespace loss_scaling_test
