// SPDX-License-Identifier: Apache-2.0
// Networks with their layers in parallel: outputs, gradients and residuals against the reference, and against one process.
#include "dense.hpp"
#include "mpi_test.hpp"
#include "placed.hpp"
#include "reference_cases.hpp"

#include <cmath>
#include <numeric>
#include <tw/comm/collectives.hpp>
#include <tw/data/npy.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>

namespace tw::layer_parallel {
namespace network_test {

using testing::world;

torch::Tensor reference_tensor(const std::string& name) { return read_npy(TW_REFERENCE "/" + name + ".npy").to(torch::kDouble); }

/// The norm of a tensor that is distributed over all ranks.
double norm_over_ranks(const torch::Tensor& part) {
  const torch::Tensor square = part.defined() ? part.square().sum() : torch::zeros({}, torch::kDouble);
  allreduce(world(), square, ReduceOp::sum);
  return std::sqrt(square.item<double>());
}

TEST(Network, HasTheResidualsAndNormsOfTheReference) {
  const torch::Tensor weights = reference_tensor("dense_smooth_weights");  // [64, 32, 33]
  const nlohmann::json cases = reference_cases();
  ASSERT_EQ(cases["network"].size(), 4U);
  for (const nlohmann::json& reference : cases["network"]) {
    for (const Batching batching : {Batching::always, Batching::never}) {
      const nlohmann::json& o = reference["options"];
      const std::string name = reference["name"];
      const CycleOptions cycle{.relaxations = {o["nrelax0"].get<int>(), o["nrelax"].get<int>()}, .skip_downcycle = o["skip"]};
      LayerParallel net(world(), {block([] { return Dense(32); }, 64, {.batching = batching})},
                        {.final_time = 2,
                         .levels = o["levels"],
                         .coarsening = o["cfactor"].get<int64_t>(),
                         .min_coarse = 1,
                         .forward = {.iterations = o["fwd_iters"], .cycle = cycle},
                         .backward = {.iterations = o["bwd_iters"], .cycle = cycle}});
      net.to(torch::kDouble);
      {
        const torch::NoGradGuard no_gradients;
        for (const NamedShard& shard : net.shards()) {
          const torch::Tensor mine = weights.narrow(0, shard.offsets[0], shard.tensor.size(0));
          shard.tensor.copy_(shard.name == "0.linear.bias" ? mine.select(2, 32) : mine.narrow(2, 0, 32));
        }
      }
      torch::Tensor input = reference_tensor("dense_input").set_requires_grad(true);
      const torch::Tensor output = net.forward(input);
      output.backward(reference_tensor("dense_cotangent"));

      expect_histories_agree(net.report().blocks[0].forward.residuals, reference["forward_history"], name);
      expect_histories_agree(net.report().blocks[0].backward.residuals, reference["backward_history"], name);
      const nlohmann::json& norms = reference["norms"];
      const auto expect_norm = [&](double ours, const char* what) {
        EXPECT_NEAR(ours, norms[what].get<double>(), 1e-10 * norms[what].get<double>()) << name << ", " << what;
      };
      expect_norm(output.norm().item<double>(), "out");
      expect_norm(norm_over_ranks(world().rank() == 0 ? input.grad() : torch::Tensor()), "dx");
      std::vector<torch::Tensor> gradients;
      for (const torch::Tensor& parameter : net.parameters()) gradients.push_back(parameter.grad().clone().flatten());
      expect_norm(norm_over_ranks(gradients.empty() ? torch::Tensor() : torch::cat(gradients)), "dw");
      if (name == "dense_smooth/train_ml2") {
        const auto expect_equal = [&](const torch::Tensor& ours, const char* file) {
          const torch::Tensor theirs = reference_tensor(file);
          EXPECT_LE((ours - theirs).norm().item<double>(), 1e-10 * theirs.norm().item<double>()) << file;
        };
        expect_equal(output.detach(), "dense_smooth_train_ml2_out");
        if (world().rank() == 0) expect_equal(input.grad(), "dense_smooth_train_ml2_dx");
      }
      if (batching == Batching::always) {
        EXPECT_EQ(net.unbatchable("0"), "");
      }
    }
  }
}

/// The results of one process.
struct Expected {
  torch::Tensor output;
  torch::Tensor input_gradient;
  std::vector<NamedShard> gradients;  // named as by LayerParallel::shards(), whole
};

Expected expected_of(SerialNetwork& net, const std::vector<Block>& blocks, const torch::Tensor& x, const torch::Tensor& cotangent) {
  Expected expected;
  torch::Tensor input = x.clone().set_requires_grad(true);
  expected.output = net.forward(input);
  expected.output.backward(cotangent);
  expected.input_gradient = input.grad();
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (const auto& p : net.layers(i)[0].module->named_parameters()) {
      std::vector<torch::Tensor> gradients;
      for (const Layer& layer : net.layers(i)) gradients.push_back(layer.module->named_parameters()[p.key()].grad());
      const torch::Tensor all = blocks[i].is_ode() ? torch::stack(gradients) : gradients[0];
      expected.gradients.push_back(whole(std::to_string(i) + '.' + p.key(), all, ShardKind::parameter));
    }
  }
  return expected;
}

void expect_equals_one_process(const std::vector<Block>& given, const LayerParallelOptions& options, const std::vector<std::vector<int64_t>>& shapes,
                               const std::string& what) {
  const std::vector<Block> blocks = testing::placed(given);
  SerialNetwork serial(blocks, options);
  serial.to(torch::kDouble);
  LayerParallel net(world(), blocks, options);
  net.to(torch::kDouble);
  for (const std::vector<int64_t>& shape : shapes) {
    torch::manual_seed(3);
    const torch::Tensor x = testing::place(torch::randn(shape, torch::kDouble));
    const torch::Tensor y = serial.forward(x);
    const torch::Tensor cotangent = testing::place(torch::randn(y.sizes(), torch::kDouble));
    serial.zero_grad();
    const Expected expected = expected_of(serial, blocks, x, cotangent);
    torch::Tensor input = x.clone().set_requires_grad(true);
    net.zero_grad();
    const torch::Tensor output = net.forward(input);
    output.backward(cotangent);
    // Exact up to the order of operations: batched products of width w sum in a different order, sqrt(w) 1.1e-16, over at most 100 layers.
    EXPECT_LE(relative_difference(output.detach(), expected.output.detach()), 1e-12) << what;
    if (world().rank() == 0) {
      EXPECT_LE(relative_difference(input.grad(), expected.input_gradient), 1e-12) << what;
    }
    const auto parameters = net.named_parameters();
    for (const NamedShard& shard : net.shards()) {
      const auto whole_gradient =
          std::find_if(expected.gradients.begin(), expected.gradients.end(), [&](const NamedShard& g) { return g.name == shard.name; });
      if (shard.kind != ShardKind::parameter) continue;
      ASSERT_NE(whole_gradient, expected.gradients.end()) << shard.name;
      torch::Tensor theirs = whole_gradient->tensor;
      for (int64_t d = 0; d < theirs.dim(); ++d) theirs = theirs.narrow(d, shard.offsets[static_cast<size_t>(d)], shard.tensor.size(d));
      ASSERT_TRUE(parameters[shard.name].grad().defined()) << what << ": " << shard.name;
      EXPECT_LE(relative_difference(parameters[shard.name].grad(), theirs), 1e-12) << what << ": " << shard.name;
    }
  }
}

LayerParallelOptions exact(int64_t layers, int levels, int64_t c) {
  const int enough = static_cast<int>(layers / c) + 2;  // each iteration makes one more interval exact
  return {.final_time = 1, .levels = levels, .coarsening = c, .min_coarse = 1, .forward = {.iterations = enough}, .backward = {.iterations = enough}};
}

TEST(Network, EqualsOneProcessWithEnoughIterations) {
  for (const int64_t layers : {2, 7, 16, 21, 40}) {
    for (const int levels : {1, 2, 3}) {
      for (const int64_t c : {2, 4}) {
        expect_equals_one_process({block([] { return Dense(6); }, layers)}, exact(layers, levels, c), {{5, 6}, {3, 6}},
                                  std::to_string(layers) + " layers, " + std::to_string(levels) + " levels, c = " + std::to_string(c));
      }
    }
  }
}

TEST(Network, EqualsOneProcessWithPlainLayersAndBlocksOfSeveralShapes) {
  const std::vector<Block> blocks{block([] { return torch::nn::Linear(4, 6); }, 1),
                                  block([] { return Dense(6); }, 12),
                                  block([] { return torch::nn::Linear(6, 3); }, 1),
                                  block([] { return torch::nn::Tanh(); }, 1),
                                  block([] { return Dense(3); }, 9, {.integrator = Integrator::rk4}),
                                  block([] { return torch::nn::Linear(3, 2); }, 1)};
  expect_equals_one_process(blocks, exact(12, 2, 3), {{5, 4}, {2, 4}}, "several shapes");
  LayerParallelOptions options = exact(12, 2, 3);
  options.front_layers = 2;
  options.back_layers = 1;
  expect_equals_one_process(blocks, options, {{5, 4}}, "layers in front and behind");
}

/// The cotangent of the first network's output is the gradient of the second network's input.
TEST(Network, TwoNetworksMayFollowOneAnother) {
  const auto blocks = [](int64_t from, int64_t to) {
    return testing::placed({block([=] { return torch::nn::Linear(from, 6); }, 1), block([] { return Dense(6); }, 9),
                            block([=] { return torch::nn::Linear(6, to); }, 1)});
  };
  LayerParallel first(world(), blocks(4, 5), exact(9, 2, 2));
  LayerParallel second(world(), blocks(5, 3), exact(9, 2, 2));
  SerialNetwork first_alone(blocks(4, 5), exact(9, 2, 2));
  SerialNetwork second_alone(blocks(5, 3), exact(9, 2, 2));
  for (torch::nn::Module* net : std::initializer_list<torch::nn::Module*>{&first, &second, &first_alone, &second_alone}) net->to(torch::kDouble);
  torch::manual_seed(4);
  const torch::Tensor x = testing::place(torch::randn({3, 4}, torch::kDouble));
  second.forward(torch::tanh(first.forward(x))).sin().sum().backward();
  second_alone.forward(torch::tanh(first_alone.forward(x))).sin().sum().backward();
  expect_gradients_equal(second, second_alone, 1e-11);  // float64, over 20 layers
  expect_gradients_equal(first, first_alone, 1e-11);
}

struct DetachingImpl : torch::nn::LinearImpl {
  using LinearImpl::LinearImpl;
  torch::Tensor forward(const torch::Tensor& x) { return LinearImpl::forward(x.detach()); }
};
TORCH_MODULE(Detaching);

TEST(Network, AnInputThatGetsNoGradientLeavesNobodyWaiting) {
  LayerParallel net(world(), testing::placed({block([] { return Detaching(4, 6); }, 1), block([] { return Dense(6); }, 9)}), exact(9, 2, 2));
  net.to(torch::kDouble);
  torch::Tensor x = testing::place(torch::randn({3, 4}, torch::kDouble));
  x.requires_grad_();
  net.forward(x).sum().backward();
  EXPECT_TRUE(!x.grad().defined() || x.grad().equal(torch::zeros_like(x))) << x.grad();
}

}  // namespace network_test
}  // namespace tw::layer_parallel
