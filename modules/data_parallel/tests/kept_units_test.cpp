// SPDX-License-Identifier: Apache-2.0
// Units that stay gathered until their slices change.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/data_parallel.hpp>

namespace kept_units_test {

using tw::testing::world;

torch::nn::Sequential four_layers() {
  torch::manual_seed(3);
  torch::nn::Sequential net;
  for (int i = 0; i < 4; ++i) net->push_back(torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false)));
  return net;
}

constexpr int64_t unit = 8 * 8 * 4;  // bytes of a layer, without padding

TEST(KeptUnits, AreGatheredOnceAnUpdate) {
  for (const auto& [kept, gathered] : std::vector<std::pair<int64_t, int64_t>>{{0, 5}, {8 * unit, 4}}) {
    auto net = four_layers();
    tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = 1, .resident_bytes = kept});
    torch::optim::SGD sgd(sharded.slices(), 0.1);
    for (int step = 0; step < 3; ++step) {
      const int64_t before = sharded.gatherings();
      net->forward(torch::ones({2, 8})).sum().backward();
      EXPECT_EQ(sharded.gatherings() - before, gathered) << kept << ' ' << step;
      const int64_t after = sharded.gatherings();
      net->forward(torch::ones({2, 8})).sum().backward();  // nothing was written in between
      EXPECT_EQ(sharded.gatherings() - after, kept == 0 ? gathered : 0) << kept << ' ' << step;
      sgd.step();
      sgd.zero_grad();
    }
  }
}

// Two passes in flight at once: autograd has saved views that are not watched.
TEST(KeptUnits, ServePassesThatOverlap) {
  auto net = four_layers();
  auto reference = four_layers();
  const tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean});
  const auto both = [](torch::nn::Sequential& of) {
    const at::Tensor first = of->forward(torch::ones({2, 8})).square().sum();
    const at::Tensor second = of->forward(torch::full({2, 8}, 0.5)).square().sum();
    first.backward();
    second.backward();
  };
  both(net);
  both(reference);
  at::Tensor expected = reference->parameters()[0].grad();
  at::Tensor norm = torch::zeros({});
  for (const at::Tensor& slice : sharded.slices()) norm += slice.grad().square().sum();
  tw::allreduce(world(), norm, tw::ReduceOp::sum);
  double squares = 0;
  for (const at::Tensor& parameter : reference->parameters()) squares += parameter.grad().square().sum().item<double>();
  EXPECT_NEAR(norm.item<double>(), squares, 1e-5 * squares);  // float32: sums of 256 squares
}

// A view kept by the user shows the old values, which must not be mistaken for the new ones.
TEST(KeptUnits, AreNotSeenThroughViewsOnceTheirSlicesChanged) {
  auto net = four_layers();
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean});
  torch::optim::SGD sgd(sharded.slices(), 0.1);
  const at::Tensor loss = net->forward(torch::ones({2, 8})).sum();
  const at::Tensor view = net->parameters()[0].detach().t();
  EXPECT_NO_THROW(view.sum());
  loss.backward();
  sgd.step();
  world().barrier();
  EXPECT_ANY_THROW(view.sum());
  EXPECT_NO_THROW(net->forward(torch::ones({2, 8})));
  EXPECT_NO_THROW(view.sum());
}

// data() has its own version counter.
TEST(KeptUnits, NameWhatWasChangedWithoutAVersion) {
  auto net = four_layers();
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean});
  const at::Tensor loss = net->forward(torch::ones({2, 8})).sum();
  for (const at::Tensor& parameter : net->parameters()) parameter.data().mul_(0.5);
  world().barrier();
  EXPECT_ANY_THROW(loss.backward());
}

TEST(KeptUnits, AreOldOnceSlicesWereWrittenByOtherMeans) {
  auto net = four_layers();
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean});
  net->forward(torch::ones({2, 8}));
  for (const at::Tensor& slice : sharded.slices()) std::fill_n(slice.mutable_data_ptr<float>(), slice.numel(), 0.F);
  sharded.slices_changed();
  EXPECT_EQ(net->forward(torch::ones({2, 8})).abs().sum().item<double>(), 0);
}

}  // namespace kept_units_test
