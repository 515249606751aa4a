// SPDX-License-Identifier: Apache-2.0
// LocalSgd and DiLoCo against simulations of all ranks on one process, which every rank runs for itself, in float64:
// |ours - simulated| <= 1e-12 |simulated| in the 2-norm of each parameter.
//
// Tolerance: rank r's inner steps are the same operations on the same numbers in both, so that differences come from the mean alone: a sum of at most
// 4 numbers of one size, about 4e-16 relative. Each of at most 30 steps of a smooth network multiplies a difference by a factor close to 1.
#include "training.hpp"

#include <filesystem>
#include <functional>
#include <tw/data_parallel.hpp>
#include <tw/state.hpp>

namespace infrequent_test {

using namespace tw::testing;
using Optimizer = std::unique_ptr<torch::optim::Optimizer>;
using MakeOptimizer = Optimizer (*)(const Net&);

Optimizer make_sgd(const Net& net) { return std::make_unique<torch::optim::SGD>(net->parameters(), 0.1); }
Optimizer make_momentum(const Net& net) {
  return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
}
Optimizer make_adamw(const Net& net) { return std::make_unique<torch::optim::AdamW>(net->parameters(), torch::optim::AdamWOptions(0.01)); }

/// The inner step of `rank`: forward, backward and update, on samples that depend on rank and step.
void inner_step(const Net& net, torch::optim::Optimizer& optimizer, int rank, int64_t step) {
  optimizer.zero_grad();
  loss_of(net, batch_of(rank, step), tw::Reduction::mean).backward();
  optimizer.step();
}

/// Simulates all ranks of the world in one process.
struct Simulation {
  explicit Simulation(MakeOptimizer make) {
    for (int rank = 0; rank < world().size(); ++rank) {
      nets.push_back(make_net());
      optimizers.push_back(make(nets.back()));
    }
  }
  void step(int64_t step) {
    for (size_t rank = 0; rank < nets.size(); ++rank) inner_step(nets[rank], *optimizers[rank], static_cast<int>(rank), step);
  }
  /// Mean of parameter `index`.
  at::Tensor mean(size_t index) const {
    at::Tensor sum = torch::zeros_like(nets[0]->parameters()[index]).detach();
    for (const Net& net : nets) sum += net->parameters()[index].detach();
    return sum / static_cast<double>(nets.size());
  }
  /// Sets parameter `index` to `value` on every rank.
  void set(size_t index, const at::Tensor& value) {
    const torch::NoGradGuard no_grad;
    for (const Net& net : nets) net->parameters()[index].copy_(value);
  }
  void average() {
    for (size_t index = 0; index < nets[0]->parameters().size(); ++index) set(index, mean(index));
  }
  const Net& mine() const { return nets[static_cast<size_t>(static_cast<int>(world().rank()))]; }

  std::vector<Net> nets;
  std::vector<Optimizer> optimizers;
};

int64_t bytes_of(const Net& net) {
  int64_t bytes = 0;
  for (const auto& parameter : net->parameters()) bytes += static_cast<int64_t>(parameter.nbytes());
  return bytes;
}

TEST(LocalSgd, EqualsASimulationOfAllRanks) {
  for (const MakeOptimizer make : {make_sgd, make_momentum, make_adamw}) {
    for (const int64_t period : {1, 3, 7}) {
      Simulation simulation(make);
      Net net = make_net_of_rank();
      const Optimizer optimizer = make(net);
      tw::LocalSgd local(world(), *net, {.period = period});
      int64_t averages = 0;
      for (int64_t step = 1; step <= 16; ++step) {
        simulation.step(step);
        inner_step(net, *optimizer, world().rank(), step);
        const bool due = step % period == 0;
        EXPECT_EQ(local.step(), due);
        if (due) simulation.average();
        averages += due;
        expect_near(net, simulation.mine(), tw::concat("period ", period, ", step ", step));
      }
      const bool left = 16 % period != 0;
      EXPECT_EQ(local.finish(), left);
      EXPECT_FALSE(local.finish());
      if (left) simulation.average();
      averages += left;
      expect_near(net, simulation.mine(), tw::concat("period ", period, ", the end"));
      EXPECT_TRUE(tw::check_consistent(world(), *net).consistent);
      EXPECT_GE(local.bytes_communicated(), averages * bytes_of(net));
      EXPECT_LE(local.bytes_communicated(), averages * (bytes_of(net) + 6 * 64));  // 6 parameters, each aligned to a cache line
      EXPECT_GT(local.exposed_time().count(), 0);
    }
  }
}

// The mean of w - lr g_r over ranks is w - lr mean(g_r).
TEST(LocalSgd, WithPeriod1AndPlainSgdIsDataParallel) {
  Net one = make_net();
  Net other = make_net();
  const Optimizer optimizer_of_one = make_sgd(one);
  const Optimizer optimizer_of_other = make_sgd(other);
  tw::LocalSgd local(world(), *one, {.period = 1});
  const tw::DataParallel parallel(world(), *other, {.reduction = tw::Reduction::mean});
  for (int64_t step = 0; step < 20; ++step) {
    inner_step(one, *optimizer_of_one, world().rank(), step);
    EXPECT_TRUE(local.step());
    inner_step(other, *optimizer_of_other, world().rank(), step);
    expect_near(one, other, tw::concat("step ", step));
  }
}

TEST(LocalSgd, AveragesBuffersWhereAsked) {
  const double rank = world().rank();
  const double mean = (world().size() - 1) / 2.0;
  for (const bool asked : {false, true}) {
    torch::nn::BatchNorm1d norm(2);
    tw::LocalSgd local(world(), *norm, {.period = 2, .average_buffers = asked});
    norm->running_mean.fill_(rank);
    norm->num_batches_tracked.fill_(world().rank() + 3);
    EXPECT_FALSE(local.step());
    EXPECT_TRUE(local.step());
    EXPECT_TRUE(norm->running_mean.eq(asked ? mean : rank).all().item<bool>());
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), world().rank() + 3);
  }
}

TEST(LocalSgd, RefusesBadOptionsAndModelsThatDiffer) {
  const Net net = make_net();
  expect_error([&] { tw::LocalSgd(world(), *net, {.period = 0}); }, "period must be at least 1, got 0");
  expect_error([&] { tw::LocalSgd(world(), std::vector<tw::NamedTensor>{}); }, "LocalSgd has nothing to train");
  if (world().size() == 1) return;
  expect_error([&] { tw::LocalSgd(world(), *net, {.period = world().rank() == 1 ? -1 : 3}); }, "rank 1 has 'period -1' where rank 0 has 'period 3'");
  const auto tensor = torch::ones({world().rank() == 1 ? 2 : 3}, torch::requires_grad());
  expect_error([&] { tw::LocalSgd(world(), {{"t", tensor}}); }, "rank 1 has 't float32 [2]' where rank 0 has 't float32 [3]'");
}

/// The outer optimizer in one process: torch::optim::SGD on the anchor, with the outer gradient as its gradient.
class OuterSimulation {
 public:
  OuterSimulation(Simulation& inner, const tw::DiLoCoOptions& options) : inner_(inner) {
    for (const auto& parameter : inner.nets[0]->parameters()) anchors_.push_back(parameter.detach().clone().requires_grad_());
    sgd_ = std::make_unique<torch::optim::SGD>(
        anchors_, torch::optim::SGDOptions(options.outer_learning_rate).momentum(options.outer_momentum).nesterov(options.nesterov));
  }
  void step() {
    for (size_t i = 0; i < anchors_.size(); ++i) anchors_[i].mutable_grad() = anchors_[i].detach() - inner_.mean(i);
    sgd_->step();
    for (size_t i = 0; i < anchors_.size(); ++i) inner_.set(i, anchors_[i].detach());
  }
  const std::vector<at::Tensor>& anchors() const { return anchors_; }

 private:
  Simulation& inner_;
  std::vector<at::Tensor> anchors_;
  Optimizer sgd_;
};

TEST(DiLoCo, EqualsASimulationWithTorchsSgd) {
  const std::vector<tw::DiLoCoOptions> cases{
      {.period = 1},
      {.period = 4},
      {.period = 4, .outer_learning_rate = 0.4, .outer_momentum = 0.5, .nesterov = false},
      {.period = 5, .outer_learning_rate = 0.9, .outer_momentum = 0, .nesterov = false},
  };
  for (const auto& options : cases) {
    for (const MakeOptimizer make : {make_momentum, make_adamw}) {
      Simulation simulation(make);
      OuterSimulation outer(simulation, options);
      Net net = make_net_of_rank();
      const Optimizer optimizer = make(net);
      tw::DiLoCo diloco(world(), *net, options);
      for (int64_t step = 1; step <= 18; ++step) {
        simulation.step(step);
        inner_step(net, *optimizer, world().rank(), step);
        const bool due = step % options.period == 0;
        EXPECT_EQ(diloco.step(), due);
        if (due) outer.step();
        expect_near(net, simulation.mine(), tw::concat("period ", options.period, ", step ", step));
      }
      const bool left = 18 % options.period != 0;
      EXPECT_EQ(diloco.finish(), left);
      EXPECT_FALSE(diloco.finish());
      if (left) outer.step();
      expect_near(net, simulation.mine(), tw::concat("period ", options.period, ", the end"));
      EXPECT_TRUE(tw::check_consistent(world(), *net).consistent);
    }
  }
}

TEST(DiLoCo, WithoutMomentumAndWithRate1IsLocalSgd) {
  Net one = make_net();
  Net other = make_net();
  const Optimizer optimizer_of_one = make_momentum(one);
  const Optimizer optimizer_of_other = make_momentum(other);
  tw::LocalSgd local(world(), *one, {.period = 3});
  tw::DiLoCo diloco(world(), *other, {.period = 3, .outer_learning_rate = 1, .outer_momentum = 0, .nesterov = false});
  for (int64_t step = 0; step < 12; ++step) {
    inner_step(one, *optimizer_of_one, world().rank(), step);
    inner_step(other, *optimizer_of_other, world().rank(), step);
    EXPECT_EQ(local.step(), diloco.step());
    expect_near(one, other, tw::concat("step ", step));
  }
  EXPECT_EQ(local.bytes_communicated(), diloco.bytes_communicated());
}

// One outer step from a known state. A delta d_r is rounded once (relative error u), the mean once more: |error| <= (2u + u^2) max |d_r| in each
// element, u = 2^-11 for float16 and 2^-8 for bfloat16, plus float32 sums of 2^-24 each, and half the smallest subnormal, 2^-25, for float16. The
// outer step multiplies that by outer_learning_rate (1 + outer_momentum), since its first momentum is the gradient.
TEST(DiLoCo, SendsOuterGradientsInHalfPrecision) {
  for (const auto& [precision, unit] : {std::pair(tw::OuterPrecision::float16, 0x1p-11), std::pair(tw::OuterPrecision::bfloat16, 0x1p-8)}) {
    const tw::DiLoCoOptions options{.period = 1, .outer_precision = precision};
    Net net = make_net();
    tw::DiLoCo diloco(world(), *net, options);
    Simulation simulation(make_sgd);
    OuterSimulation outer(simulation, options);
    const torch::NoGradGuard no_grad;
    double largest = 0;
    for (size_t index = 0; index < net->parameters().size(); ++index) {
      for (int rank = 0; rank < world().size(); ++rank) {
        torch::manual_seed(static_cast<uint64_t>(100 * rank) + index);
        const auto delta = 0.1 * torch::randn_like(net->parameters()[index]);
        largest = std::max(largest, delta.abs().max().item<double>());
        simulation.nets[static_cast<size_t>(rank)]->parameters()[index].add_(delta);
        if (rank == world().rank()) net->parameters()[index].add_(delta);
      }
    }
    EXPECT_TRUE(diloco.step());
    outer.step();
    const double bound = (2.1 * unit * largest + 2 * 0x1p-25) * options.outer_learning_rate * (1 + options.outer_momentum);
    double error = 0;
    for (size_t index = 0; index < net->parameters().size(); ++index) {
      error = std::max(error, (net->parameters()[index] - simulation.mine()->parameters()[index]).abs().max().item<double>());
    }
    EXPECT_LE(error, bound);
    EXPECT_GT(error, 1e-3 * bound) << "that is full precision";
    EXPECT_LE(diloco.bytes_communicated(), bytes_of(net) / 4 + 6 * 64);
    EXPECT_TRUE(tw::check_consistent(world(), *net).consistent);
  }
}

std::filesystem::path fresh_folder() {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / tw::concat("tw_infrequent_", world().size());
  if (world().rank() == 0) std::filesystem::remove_all(folder);
  world().barrier();
  return folder;
}

/// Net, inner optimizer and strategy of one run.
template <class Strategy, class Options>
struct Run {
  explicit Run(const Options& options) : net(make_net_of_rank()), optimizer(make_sgd(net)), strategy(world(), *net, options) {}
  void train(int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; ++step) {
      inner_step(net, *optimizer, world().rank(), step);
      (void)strategy.step();
    }
  }
  std::vector<tw::NamedShard> shards() const {
    std::vector<tw::NamedShard> shards = tw::module_shards(*net);
    for (tw::NamedShard& shard : shards) shard.on_reshard = tw::OnReshard::mean;
    for (tw::NamedShard& shard : strategy.shards()) shards.push_back(std::move(shard));
    return shards;
  }

  Net net;
  Optimizer optimizer;
  Strategy strategy;
};

// Bitwise equal to an uninterrupted run.
template <class Strategy, class Options>
void expect_resumes_in_mid_period(const Options& options) {
  Run<Strategy, Options> through(options);
  through.train(0, 6);  // period 4: two steps into the second period
  {
    tw::CheckpointStore store(world(), fresh_folder());
    store.save(6, through.shards(), "");
    store.wait();
    through.train(6, 13);
    Run<Strategy, Options> resumed(options);
    const torch::NoGradGuard no_grad;
    (void)store.load(6, resumed.shards());
    const torch::AutoGradMode grad(true);
    resumed.train(6, 13);
    for (size_t i = 0; i < through.net->parameters().size(); ++i) {
      EXPECT_TRUE(resumed.net->parameters()[i].equal(through.net->parameters()[i])) << "parameter " << i;
    }
  }
}

TEST(LocalSgd, ResumesInMidPeriod) { expect_resumes_in_mid_period<tw::LocalSgd>(tw::LocalSgdOptions{.period = 4}); }
TEST(DiLoCo, ResumesInMidPeriod) { expect_resumes_in_mid_period<tw::DiLoCo>(tw::DiLoCoOptions{.period = 4}); }

TEST(DiLoCo, ShowsItsState) {
  const Net net = make_net();
  const tw::DiLoCo diloco(world(), *net, {.outer_momentum = 0, .nesterov = false});
  std::vector<std::string> names;
  for (const auto& shard : diloco.shards()) {
    names.push_back(shard.name);
    EXPECT_EQ(shard.on_reshard, tw::OnReshard::replicate);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"diloco/anchor/0.weight", "diloco/anchor/0.bias", "diloco/anchor/3.weight", "diloco/anchor/3.bias",
                                             "diloco/anchor/5.weight", "diloco/anchor/5.bias", "diloco/steps"}));
  EXPECT_EQ(tw::DiLoCo(world(), *net).shards().size(), 13U);
}

TEST(DiLoCo, RefusesBadOptionsAndModelsThatDiffer) {
  const Net net = make_net();
  const auto refuses = [&](const tw::DiLoCoOptions& options, const std::string& part) {
    expect_error([&] { tw::DiLoCo(world(), *net, options); }, part);
  };
  refuses({.period = 0}, "period must be at least 1, got 0");
  refuses({.outer_learning_rate = 0}, "outer_learning_rate must be positive, got 0");
  refuses({.outer_momentum = 1}, "outer_momentum must be below 1, got 1");
  refuses({.outer_momentum = -0.1}, "outer_momentum must be at least 0, got -0.1");
  refuses({.outer_momentum = 0}, "nesterov needs outer_momentum");
  const auto complex = torch::ones({2}, torch::dtype(torch::kComplexFloat).requires_grad(true));
  expect_error([&] { tw::DiLoCo(world(), {{"c", complex}}, {.outer_precision = tw::OuterPrecision::float16}); }, "c complex64 [2] is complex");
  EXPECT_NO_THROW(tw::DiLoCo(world(), {{"c", complex}}).finish());
  if (world().size() == 1) return;
  refuses({.outer_momentum = world().rank() == 1 ? 0.5 : 0.9}, "rank 1 has 'outer_momentum 0.5' where rank 0 has 'outer_momentum 0.9'");
  refuses({.outer_learning_rate = world().rank() == 1 ? 0.7 + 1e-15 : 0.7}, "where rank 0 has 'outer_learning_rate 0.7'");
  const auto tensor = torch::ones({world().rank() == 1 ? 2 : 3}, torch::requires_grad());
  expect_error([&] { tw::DiLoCo(world(), {{"t", tensor}}); }, "rank 1 has 't float32 [2]' where rank 0 has 't float32 [3]'");
}

}  // namespace infrequent_test
