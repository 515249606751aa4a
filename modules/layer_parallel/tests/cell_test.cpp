// SPDX-License-Identifier: Apache-2.0
// Steps of recurrent cells: Jacobians and their transposes against autograd, and coarse steps against the fine steps that they replace.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/layer_parallel/cell.hpp>

namespace tw::layer_parallel {
namespace cell_test {

using torch::Tensor;
constexpr int64_t rows = 4, hidden = 3;

StateWeights weights_of(Cell cell) {
  const int64_t wide = gates_of(cell) * hidden;
  return {cell, torch::randn({wide, hidden}, torch::kDouble), torch::randn({wide}, torch::kDouble)};
}

State random_state(Cell cell) {
  State state;
  for (int64_t i = 0; i < states_of(cell); ++i) state.push_back(torch::randn({rows, hidden}, torch::kDouble));
  return state;
}

std::vector<Span> spans() {
  const Tensor some = torch::tensor({{0.0}, {1.0}, {2.0}, {5.0}}, torch::kDouble);
  std::vector<Span> all{{}, {.of_rows = some.clamp_max(1)}};
  for (const CoarseCell how : {CoarseCell::frozen_gates, CoarseCell::implicit}) {
    all.push_back({.dt = 4, .coarse = true, .how = how});
    all.push_back({.dt = 4, .coarse = true, .how = how, .of_rows = some});
  }
  return all;
}

// 1e-13: tens of rounding errors of numbers of size 1.
TEST(Cell, TheTransposedJacobianIsAutogradsOfTheStep) {
  torch::manual_seed(5);
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    for (const Span& span : spans()) {
      StateWeights weights = weights_of(cell);
      weights.bias.requires_grad_();
      State from = random_state(cell);
      const Tensor input = torch::randn({rows, gates_of(cell) * hidden}, torch::kDouble).requires_grad_();
      std::vector<Tensor> inputs{input, weights.bias};
      for (Tensor& tensor : from) inputs.push_back(tensor.requires_grad_());
      const State cotangent = random_state(cell);
      const CellStep made = step(weights, from, input, span);
      const std::vector<Tensor> expected = torch::autograd::grad(made.to, inputs, cotangent);

      const torch::NoGradGuard no_gradients;
      const CellGradient found = transposed(weights, made.kept, cotangent, span);
      EXPECT_TRUE(found.of_input.allclose(expected[0], 1e-13, 1e-13));
      EXPECT_TRUE(found.of_product.sum(0).allclose(expected[1], 1e-13, 1e-13));
      for (size_t i = 0; i < from.size(); ++i) EXPECT_TRUE(found.of_state[i].allclose(expected[2 + i], 1e-13, 1e-13)) << i;
    }
  }
}

// Row by row, because rows of a state are independent.
TEST(Cell, TheJacobianIsAutogradsOfTheStep) {
  torch::manual_seed(8);
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    for (const Span& span : spans()) {
      const StateWeights weights = weights_of(cell);
      State from = random_state(cell);
      for (Tensor& tensor : from) tensor.requires_grad_();
      const Tensor input = torch::randn({rows, gates_of(cell) * hidden}, torch::kDouble);
      const CellStep made = step(weights, from, input, span);
      const int64_t count = states_of(cell);
      const Tensor expected = torch::zeros({rows, count, hidden, count, hidden}, torch::kDouble);
      const Tensor to = torch::stack(made.to, 1);
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t unit = 0; unit < hidden; ++unit) {
          const std::vector<Tensor> of = torch::autograd::grad({to.select(1, i).select(1, unit).sum()}, from, {}, true, false, true);
          for (size_t j = 0; j < of.size(); ++j) {
            if (of[j].defined()) expected.select(1, i).select(1, unit).select(1, static_cast<int64_t>(j)).copy_(of[j]);
          }
        }
      }
      const torch::NoGradGuard no_gradients;
      State kept;
      for (const Tensor& tensor : made.kept) kept.push_back(tensor.detach());
      const Tensor full = jacobian(weights, kept, span, JacobianKind::full);
      EXPECT_TRUE(full.allclose(expected.reshape({rows, count * hidden, count * hidden}), 1e-13, 1e-13)) << static_cast<int>(cell);
      const Tensor diagonal = jacobian(weights, kept, span, JacobianKind::diagonal);
      EXPECT_TRUE(diagonal.allclose(expected.diagonal(0, 2, 4), 1e-13, 1e-13)) << static_cast<int>(cell);
    }
  }
}

// Without recurrent weights the gates do not change, so a coarse step with frozen gates equals four fine ones.
TEST(Cell, FrozenGatesAreTheCellAsOftenAsTheSpanSays) {
  torch::manual_seed(6);
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    StateWeights weights = weights_of(cell);
    weights.weight.zero_();
    const State from = random_state(cell);
    const Tensor input = torch::randn({rows, gates_of(cell) * hidden}, torch::kDouble);
    State fine = from;
    for (int i = 0; i < 4; ++i) fine = step(weights, fine, input, {}).to;
    const State coarse = step(weights, from, input, {.dt = 4, .coarse = true}).to;
    for (size_t i = 0; i < fine.size(); ++i) EXPECT_TRUE(coarse[i].allclose(fine[i], 1e-13, 1e-13)) << static_cast<int>(cell) << i;
  }
}

// With a forget gate that rounds to 1, inputs are summed.
TEST(Cell, AGateThatIsOpenAddsUp) {
  StateWeights weights{Cell::lstm, torch::zeros({4, 1}), torch::zeros({4})};
  const Tensor input = torch::tensor({{0.0, 100.0, 0.5, 0.0}});
  const State to = step(weights, {torch::zeros({1, 1}), torch::ones({1, 1})}, input, {.dt = 8, .coarse = true}).to;
  EXPECT_NEAR(to[1].item<float>(), 1 + 8 * 0.5 * std::tanh(0.5), 1e-5);
}

}  // namespace cell_test
}  // namespace tw::layer_parallel
