// SPDX-License-Identifier: Apache-2.0
// Programs that DataParallel rejects, and the fixes that its messages suggest.
#include "message_of.hpp"
#include "mpi_test.hpp"
#include "one_parameter.hpp"

#include <torch/torch.h>

#include <tw/data_parallel.hpp>

namespace data_parallel_refusals_test {

using namespace tw::testing::one_parameter;
using tw::testing::world;

TEST(DataParallel, SampleWeightedNeedsTheSamples) {
  const auto p = parameter();
  tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = tw::Reduction::sample_weighted});
  EXPECT_THROW(loss_of(p).backward(), tw::ContractError);
  EXPECT_THROW(parallel.set_samples(-1), tw::ContractError);
  p.mutable_grad() = at::Tensor();
  parallel.set_samples(world().rank() == 0 ? 1 : 0);
  loss_of(p).backward();
  expect_gradient(p, 1);  // only rank 0's gradient counts
}

TEST(DataParallel, RefusesParametersThatLieElsewhere) {
  const auto p = torch::ones({3}, torch::dtype(torch::kFloat).device(torch::kMeta).requires_grad(true));
  EXPECT_THROW(tw::DataParallel(world(), {{"p", p}}, {.reduction = tw::Reduction::sum}), tw::ContractError);
}

TEST(DataParallel, AParameterHasOneOfThem) {
  const auto p = parameter();
  auto parallel =
      std::make_unique<tw::DataParallel>(world(), std::vector<tw::NamedTensor>{{"p", p}}, tw::DataParallelOptions{.reduction = tw::Reduction::mean});
  auto second =
      std::make_unique<tw::DataParallel>(world(), std::vector<tw::NamedTensor>{{"p", p}}, tw::DataParallelOptions{.reduction = tw::Reduction::mean});
  const std::string error = tw::testing::message_of<tw::ContractError>([&] { loss_of(p).backward(); });
  EXPECT_NE(error.find("the gradient of p is reduced twice"), std::string::npos) << error;
  p.mutable_grad() = at::Tensor();
  parallel.reset();
  loss_of(p).backward();
  expect_gradient(p, factor(tw::Reduction::mean));
}

TEST(DataParallel, TheReductionMustBeChosen) {
  const auto error = [](const auto& make) { return tw::testing::message_of<tw::ContractError>(make); };
  const std::vector<tw::NamedTensor> parameters{{"p", parameter()}};
  EXPECT_NE(error([&] { tw::DataParallel(world(), parameters, {}); }).find("the reduction must be chosen"), std::string::npos);
  EXPECT_NE(error([&] { tw::FullySharded(world(), parameters, {}); }).find("the reduction must be chosen"), std::string::npos);
  torch::optim::SGD sgd({parameters[0].tensor}, 0.1);
  EXPECT_NE(error([&] { tw::DistributedOptimizer(world(), sgd, parameters, {}); }).find("the reduction must be chosen"), std::string::npos);
  loss_of(parameters[0].tensor).backward();  // no longer reduced
  expect_gradient(parameters[0].tensor, world().rank() + 1);
}

// The return value of the closure ends the iterations of LibTorch's LBFGS. With each rank's own loss, ranks may make different numbers of passes; the
// next pass detects that. With reduced(), all make the same passes as one process.
at::Tensor lbfgs(const at::Tensor& p, const std::function<at::Tensor(const at::Tensor& loss)>& returned, int rank, int ranks) {
  torch::optim::LBFGS optimizer({p}, torch::optim::LBFGSOptions(0.5).max_iter(8).tolerance_change(0.05));
  for (int step = 0; step < 4; ++step) {
    optimizer.step([&] {
      optimizer.zero_grad();
      at::Tensor loss = torch::zeros({}, torch::kDouble);
      for (int each = rank; each < rank + ranks; ++each) {
        const at::Tensor target = torch::arange(3, torch::kDouble) * (each + 1);
        loss = loss + ((p - target).pow(4).sum() * 0.1 + (p - target).square().sum()) / ranks;
      }
      loss.backward();
      return returned(loss);
    });
  }
  return p.detach().clone();
}

TEST(DataParallel, ClosuresReturnAReducedLoss) {
  const auto start = [] { return torch::full({3}, 0.5, torch::dtype(torch::kDouble).requires_grad(true)); };
  const at::Tensor expected = lbfgs(start(), [](const at::Tensor& loss) { return loss; }, 0, world().size());
  const auto p = start();
  const tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = tw::Reduction::mean});
  const at::Tensor found = lbfgs(p, [](const at::Tensor& loss) { return tw::reduced(world(), loss, tw::Reduction::mean); }, world().rank(), 1);
  EXPECT_TRUE(found.allclose(expected, 1e-9)) << found << expected;
}

// One rank skips an update because of its own loss.
TW_TEST_ON(DataParallel, NamesRanksThatDidNotMakeTheSameUpdates, {.least = 2}) {
  const auto p = parameter();
  torch::optim::SGD sgd({p}, 0.1);
  const tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = tw::Reduction::mean});
  loss_of(p).backward();
  if (world().rank() != 1) sgd.step();
  const std::string error = tw::testing::message_of<tw::ContractError>([&] { loss_of(p).backward(); });
  EXPECT_NE(error.find("before backward pass 2 an element of p is "), std::string::npos) << error;
}

/// Recomputation like LibTorch's checkpoint, by a backward pass inside the backward pass; autograd does not see the weight.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor* weight) {
    context->save_for_backward({x});
    context->saved_data["weight"] = *weight;
    return (x * *weight).tanh();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const torch::AutoGradMode on(true);
    const at::Tensor x = saved[0].detach().requires_grad_();
    (x * context->saved_data["weight"].toTensor()).tanh().backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
};

// A layer in two recomputed parts gets two gradients in one backward pass if it gets a plain one first.
TEST(DataParallel, SaysWhatToWriteWhereNestedBackwardPassesMeet) {
  const auto p = parameter();
  tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = tw::Reduction::sum});
  const auto loss = [&] {
    const at::Tensor x = torch::full({3}, 0.5 * (world().rank() + 1)).requires_grad_();
    return (Recomputed::apply(x, &p) * p).sum();
  };
  at::Tensor expected = torch::autograd::grad({(torch::tanh(torch::full({3}, 0.5 * (world().rank() + 1)) * p) * p).sum()}, {p})[0];
  tw::allreduce(world(), expected, tw::ReduceOp::sum);
  {
    const auto local = parallel.no_sync();
    loss().backward();
  }
  parallel.join_backward();
  EXPECT_TRUE(p.grad().allclose(expected)) << p.grad() << expected;
  p.mutable_grad() = at::Tensor();
  const std::string error = tw::testing::message_of<tw::ContractError>([&] { loss().backward(); });
  EXPECT_NE(error.find("tw::recomputed()"), std::string::npos) << error;
}

TEST(Reduced, IsTheLossOfAllSamples) {
  const at::Tensor loss = torch::full({1}, world().rank() + 1.0);
  EXPECT_NEAR(tw::reduced(world(), loss, tw::Reduction::sum).item<double>(), triangle(), tolerance);
  EXPECT_NEAR(tw::reduced(world(), loss, tw::Reduction::mean).item<double>(), triangle() / world().size(), tolerance);
  const bool has = world().rank() == 0;
  const at::Tensor mean = has ? loss : torch::full({}, NAN);
  EXPECT_NEAR(tw::reduced(world(), mean, tw::Reduction::sample_weighted, has ? 3 : 0).item<double>(), 1, tolerance);
}

}  // namespace data_parallel_refusals_test
