// SPDX-License-Identifier: Apache-2.0
// A step of DataParallel that fails on one rank ends on all, and training goes on as if it had not been: to the bit.
#include "failing_net.hpp"
#include "message_of.hpp"

#include <tw/data_parallel/data_parallel.hpp>
#include <tw/gradients/compression.hpp>

namespace failed_steps_test {

using tw::testing::all_failures;
using tw::testing::expect_equal_bits;
using tw::testing::expect_failure;
using tw::testing::FailingNet;
using tw::testing::Failure;
using tw::testing::Failures;
using tw::testing::loss_of;
using tw::testing::message_of;
using tw::testing::world;
using Place = Failure::Place;

/// Parameters and buffers after a few updates. @param to_none how zero_grad() is called
std::vector<at::Tensor> trained(const Failures& failures, bool overlap, bool to_none = true) {
  FailingNet net;
  torch::optim::Adam adam(net->parameters(), 0.05);
  // A bucket for each parameter, so that some are reduced before a failure.
  tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::mean, .buckets = {1, 1}, .overlap = overlap});
  tw::testing::train(net, parallel, adam, failures, to_none);
  std::vector<at::Tensor> values = net->parameters();
  for (const at::Tensor& buffer : net->buffers()) values.push_back(buffer);
  return values;
}

TEST(FailedSteps, LeaveNoTrace) {
  for (const bool overlap : {false, true}) {
    const std::vector<at::Tensor> expected = trained({}, overlap);
    for (const Failure& failure : all_failures()) {
      SCOPED_TRACE(failure.text() + tw::concat(", place ", static_cast<int>(failure.place), ", overlap ", overlap));
      expect_equal_bits(trained({{2, {failure}}}, overlap, failure.rank % 2 == 0), expected);
    }
  }
}

TEST(FailedSteps, MayBeTheFirst) { expect_equal_bits(trained({{0, {{Place::backward, 0}}}}, true), trained({}, true)); }

TEST(FailedSteps, MayFollowOneAnother) {
  const int last = world().size() - 1;
  const std::vector<Failure> several{{Place::model, last}, {Place::model, last, true}, {Place::backward, 0}, {Place::loss, last}};
  expect_equal_bits(trained({{1, several}, {3, several}}, false), trained({}, false));
}

TEST(FailedSteps, GiveEachRankItsOwnException) {
  FailingNet net;
  tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::sum});
  const Failure mine{Place::loss, world().rank(), true};
  EXPECT_THROW(parallel.train_step([&] { loss_of(net, 0, mine).backward(); }), c10::OutOfMemoryError);
  parallel.train_step([&] { loss_of(net, 0).backward(); });
  EXPECT_TRUE(net->first->bias.grad().defined());
}

// The others have ended the step, so the failure ends their next one, and every rank makes the same number of steps.
TEST(FailedSteps, MayFailAfterTheReduction) {
  FailingNet net;
  tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::sum});
  const auto step = [&](bool fails) {
    return message_of([&] {
      parallel.train_step([&] {
        loss_of(net, 0).backward();
        world().barrier();
        if (fails) throw std::runtime_error("too late");
      });
    });
  };
  const bool fails = world().rank() == 0;
  EXPECT_EQ(step(fails), fails ? "too late" : "nothing thrown");
  if (world().size() > 1) {
    const std::string message = step(false);
    EXPECT_NE(message.find(fails ? "a later step has failed on other ranks" : "too late"), std::string::npos) << message;
  }
  EXPECT_EQ(step(false), "nothing thrown");
}

// A pass outside of train_step() begins again, too.
TEST(FailedSteps, MayBeFollowedByAPlainPass) {
  FailingNet net;
  tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::sum});
  loss_of(net, 0).backward();
  const at::Tensor expected = net->first->weight.grad().clone();
  const Failure failure{Place::model, 0};
  expect_failure(failure, [&] { parallel.train_step([&] { loss_of(net, 1, failure).backward(); }); });
  EXPECT_FALSE(net->first->weight.grad().defined());
  loss_of(net, 0).backward();
  EXPECT_TRUE(net->first->weight.grad().equal(expected));
}

TEST(FailedSteps, EndWhatHasResiduals) {
  FailingNet net;
  tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::mean, .compressor = tw::top_k_compression({.fraction = 0.5})});
  const auto step = [&](const Failure& failure) { parallel.train_step([&] { loss_of(net, 0, failure).backward(); }); };
  const Failure failure{Place::model, 0};
  expect_failure(failure, [&] { step(failure); });
  EXPECT_NE(message_of([&] { step({}); }).find("make a new one"), std::string::npos);
}

TEST(FailedSteps, AreNotWithinSteps) {
  FailingNet net;
  tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::mean});
  EXPECT_THROW(parallel.train_step([&] { parallel.train_step([] {}); }), tw::ContractError);
}

}  // namespace failed_steps_test
