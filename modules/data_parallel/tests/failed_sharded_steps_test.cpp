// SPDX-License-Identifier: Apache-2.0
// A step of FullySharded that fails on one rank ends on all, and training goes on as if it had not been: to the bit.
#include "failing_net.hpp"
#include "message_of.hpp"

#include <tw/comm/mesh.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/fully_sharded.hpp>

namespace failed_sharded_steps_test {

using tw::testing::all_failures;
using tw::testing::expect_equal_bits;
using tw::testing::expect_failure;
using tw::testing::FailingNet;
using tw::testing::Failure;
using tw::testing::Failures;
using tw::testing::loss_of;
using tw::testing::world;
using Place = Failure::Place;

/// A unit for each parameter.
tw::FullyShardedOptions small_units() { return {.reduction = tw::Reduction::mean, .unit_bytes = 8}; }

/// This rank's slices and the buffers after a few updates.
std::vector<at::Tensor> trained(const Failures& failures, const tw::FullyShardedOptions& options, int replicas = 1) {
  const tw::Mesh mesh(world(), {{"data", replicas}, {"shard", -1}});
  FailingNet net;
  tw::FullySharded sharded(mesh["shard"], *net, options, {.replicas = replicas > 1 ? &mesh["data"] : nullptr});
  torch::optim::Adam adam(sharded.slices(), 0.05);
  tw::testing::train(net, sharded, adam, failures);
  std::vector<at::Tensor> values;
  for (const at::Tensor& slice : sharded.slices()) values.push_back(slice.detach().clone());
  for (const at::Tensor& buffer : net->buffers()) values.push_back(buffer);
  return values;
}

TEST(FailedShardedSteps, LeaveNoTrace) {
  const std::vector<at::Tensor> expected = trained({}, small_units());
  for (const Failure& failure : all_failures()) {
    SCOPED_TRACE(failure.text() + tw::concat(", place ", static_cast<int>(failure.place)));
    expect_equal_bits(trained({{2, {failure}}}, small_units()), expected);
  }
}

TEST(FailedShardedSteps, LeaveNoTraceWithAnyOptions) {
  const int last = world().size() - 1;
  const std::vector<Failure> several{{Place::model, last}, {Place::backward, 0, true}, {Place::loss, last}};
  std::vector<tw::FullyShardedOptions> all(4, small_units());
  all[0].prefetch_units = 2;
  all[1].resident_bytes = 1 << 20;
  all[2].one_copy_per_node = true;
  all[3].unit_bytes = 1 << 20;
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(tw::concat("options ", i));
    expect_equal_bits(trained({{0, several}, {3, several}}, all[i]), trained({}, all[i]));
  }
}

TW_TEST_ON(FailedShardedSteps, LeaveNoTraceWithReplicas, {.least = 4}) {
  const std::vector<at::Tensor> expected = trained({}, small_units(), 2);
  for (const Failure& failure : all_failures()) {
    SCOPED_TRACE(failure.text() + tw::concat(", place ", static_cast<int>(failure.place)));
    expect_equal_bits(trained({{1, {failure, failure}}}, small_units(), 2), expected);
  }
}

// A forward pass outside of train_step() begins again, too. The models share the comparison of orders.
TEST(FailedShardedSteps, MayBeFollowedByAnEvaluationOfAnyModel) {
  FailingNet net;
  FailingNet other;
  tw::FullySharded sharded(world(), *net, small_units());
  const tw::FullySharded of_other(world(), *other, small_units());
  const auto evaluate = [](FailingNet& model) {
    const at::NoGradGuard no_grad;
    model->eval();
    const double loss = loss_of(model, 7).item<double>();
    model->train();
    return loss;
  };
  const double expected = evaluate(net);
  const Failure failure{Place::loss, 0};
  for (int turn = 0; turn < 2; ++turn) {
    expect_failure(failure, [&] { sharded.train_step([&] { loss_of(net, 1, failure).backward(); }); });
    EXPECT_EQ(evaluate(net), expected);
    EXPECT_EQ(evaluate(other), expected);
  }
}

TEST(FailedShardedSteps, AreMadeByTheirOwner) {
  FailingNet net;
  tw::FullySharded sharded(world(), *net, small_units());
  EXPECT_THROW(sharded.parallel().train_step([] {}), tw::ContractError);
  EXPECT_THROW(sharded.train_step([&] { sharded.train_step([] {}); }), tw::ContractError);
}

}  // namespace failed_sharded_steps_test
