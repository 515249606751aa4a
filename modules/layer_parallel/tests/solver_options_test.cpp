// SPDX-License-Identifier: Apache-2.0
// How the passes of a network are solved: tolerances, levels of the adjoint, and where iterations begin.
#include "dense.hpp"
#include "mpi_test.hpp"

#include <tuple>
#include <tw/base/contract.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>

namespace tw::layer_parallel {
namespace solver_options_test {

using testing::world;

// 64 times the same sample has 8 times the residual; a scaled tolerance stops after as many iterations, and one that is not, later.
TEST(SolverOptions, AScaledToleranceIsOfASample) {
  torch::manual_seed(3);
  const torch::Tensor sample = torch::randn({1, 4}, torch::kDouble);
  const auto iterations = [&](bool scaled, double tolerance, int64_t samples) {
    LayerParallelOptions options{.coarsening = 2, .scaled_tolerance = scaled};
    options.forward = {.iterations = 12, .tolerance = tolerance};
    LayerParallel net(world(), {block([] { return Dense(4); }, 64)}, options);
    net.to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    net.forward(sample.expand({samples, 4}).contiguous());
    return net.report().blocks[0].forward.iterations;
  };
  bool differs = false;
  for (const double tolerance : {1e-2, 1e-3, 1e-4, 1e-5, 1e-6}) {
    EXPECT_EQ(iterations(true, tolerance, 1), iterations(true, tolerance, 64)) << tolerance;
    // of 4 numbers and steps of 1/64: sqrt(4 * 64)
    EXPECT_EQ(iterations(true, tolerance, 1), iterations(false, 16 * tolerance, 1)) << tolerance;
    differs = differs || iterations(false, tolerance, 1) != iterations(false, tolerance, 64);
  }
  EXPECT_TRUE(differs) << "or this shows nothing";
}

// The adjoint on levels of its own: exact with enough iterations, and with one iteration as near as its own c lets it be.
TEST(SolverOptions, TheAdjointMayHaveOtherLevels) {
  for (const int64_t layers : {24, 27}) {
    for (const LevelOptions& backward :
         {LevelOptions{.coarsening = 6}, LevelOptions{.levels = 3, .coarsening = 3, .min_coarse = 1}, LevelOptions{.levels = 1}}) {
      LayerParallelOptions options{.min_coarse = 1, .forward = {.iterations = 12}, .backward = {.iterations = 12}};
      options.coarsening = 3;
      options.backward_levels = backward;
      const std::vector<Block> blocks{block([] { return Dense(4); }, layers)};
      LayerParallel net(world(), blocks, options);
      SerialNetwork serial(blocks, options);
      net.to(torch::kDouble);
      serial.to(torch::kDouble);
      torch::manual_seed(9);
      const torch::Tensor x = torch::randn({3, 4}, torch::kDouble);
      serial.forward(x).sin().sum().backward();
      net.forward(x).sin().sum().backward();
      expect_gradients_equal(net, serial, 1e-11);
      const auto report = net.report().blocks[0];
      EXPECT_EQ(report.backward.steps.size(), static_cast<size_t>(backward.levels == 1 ? 1 : backward.levels)) << layers;
      EXPECT_EQ(report.forward.steps.size(), 2U);
    }
  }
  EXPECT_THROW(LayerParallel(world(), {block([] { return Dense(4); }, 24)}, {.coarsening = 4, .backward_levels = LevelOptions{.coarsening = 6}}),
               ContractError);
}

// Two kinds of samples, each time a little otherwise: once both were seen, a pass begins near its solution, and ends nearer than one that begins
// with its prediction; what it computes in the end, with enough iterations, is the same.
TEST(SolverOptions, GuessesByClass) {
  torch::manual_seed(6);
  const torch::Tensor kinds = torch::randn({2, 4}, torch::kDouble) * 3;
  const auto residual = [&](Guess guess, int iterations) {
    LayerParallelOptions options{.coarsening = 4, .guess = guess};
    options.forward = options.backward = {.iterations = iterations};
    LayerParallel net(world(), {block([] { return Dense(4); }, 32)}, options);
    net.to(torch::kDouble);
    torch::manual_seed(7);
    torch::Tensor output;
    for (int pass = 0; pass < 4; ++pass) {
      const torch::Tensor classes = torch::randint(2, {6}, torch::kLong);
      const torch::Tensor x =
          kinds.index_select(0, pass == 0 ? torch::tensor({0, 1, 0, 1, 0, 1}) : classes) + 0.01 * torch::randn({6, 4}, torch::kDouble);
      net.set_classes(pass == 0 ? torch::tensor({0, 1, 0, 1, 0, 1}) : classes);
      net.zero_grad();
      output = net.forward(x);
      output.square().sum().backward();
    }
    const auto report = net.report().blocks[0];
    return std::tuple(report.forward.residuals.back().value(), report.backward.residuals.back().value(), output.detach());
  };
  EXPECT_LT(std::get<0>(residual(Guess::by_class, 2)), 0.2 * std::get<0>(residual(Guess::zero, 2)));
  EXPECT_LT(std::get<1>(residual(Guess::by_class, 2)), 0.2 * std::get<1>(residual(Guess::zero, 2)));
  EXPECT_LT(relative_difference(std::get<2>(residual(Guess::by_class, 9)), std::get<2>(residual(Guess::zero, 9))), 1e-12);
}

}  // namespace solver_options_test
}  // namespace tw::layer_parallel
