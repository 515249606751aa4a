// SPDX-License-Identifier: Apache-2.0
// Steps that run for several layers together: each operation against LibTorch and autograd, layer by layer.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <tw/parallel_in_time/states.hpp>

#include "dense.hpp"
#include "layer_stack.hpp"
#include "step_graph.hpp"
#include "step_program.hpp"
#include "vmapped_step.hpp"

namespace tw::layer_parallel {
namespace step_program_test {

/// Any function of a state, a weight [4, 4] and a bias [4].
struct FunctionImpl : torch::nn::Module {
  using F = std::function<torch::Tensor(const torch::Tensor& u, const torch::Tensor& w, const torch::Tensor& b, const torch::Tensor& extra)>;
  explicit FunctionImpl(F f) : f_(std::move(f)) {
    weight = register_parameter("weight", torch::randn({4, 4}, torch::kDouble));
    bias = register_parameter("bias", torch::randn({4}, torch::kDouble));
  }
  torch::Tensor forward(const torch::Tensor& u, const State& extras) { return f_(u, weight, bias, extras.at(0)); }
  torch::Tensor weight;
  torch::Tensor bias;
  F f_;
};
TORCH_MODULE(Function);

constexpr int64_t layers = 5;
constexpr double dt = 0.25;

struct Case {
  std::string name;
  FunctionImpl::F f;
  std::vector<int64_t> shape = {3, 4};
  Integrator integrator = Integrator::euler;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class StepProgramCase : public ::testing::TestWithParam<Case> {};

/// Compares rows 1 and 3 of `layers`, and all rows.
TEST_P(StepProgramCase, EqualsAutogradLayerByLayer) {
  const Case& c = GetParam();
  torch::manual_seed(1);
  const Block of = block([&] { return Function(c.f); }, layers, {.integrator = c.integrator});
  const LayerStack stack(of, {0, layers}, 1, 0);
  std::vector<int64_t> shape = c.shape;
  shape.insert(shape.begin(), layers);
  const State states{torch::randn(shape, torch::kDouble)};
  const State cotangents{torch::randn(shape, torch::kDouble)};
  const State extras{torch::randn({4}, torch::kDouble)};

  const graph::Graph graph = step_graph(stack, 0, c.integrator, row(states, 0), extras, dt);
  std::string problem;
  const auto program = StepProgram::compile(graph, 1, 1, problem);
  ASSERT_NE(program, nullptr) << problem;
  StepProgram::Kept kept;
  const State before = clone(states);
  const State to = program->run(states, extras, stack.parameters_of(Rows{0, layers, 1}), &kept);
  EXPECT_TRUE(states[0].equal(before[0])) << "the state is the caller's";
  std::vector<at::Tensor> gradients;
  for (const StackedTensor& p : stack.parameters()) gradients.push_back(torch::zeros_like(p.stack));
  const State all = program->transposed(kept, {0, layers, 1}, cotangents, gradients);
  const State without_parameters = program->transposed(kept, {1, 2, 2}, rows(cotangents, 1, 2, 2), {});

  for (int64_t k = 0; k < layers; ++k) {
    const State leaf{states[0][k].clone().set_requires_grad(true)};
    const State expected = step(stack.layer(k), c.integrator, leaf, extras, dt);
    std::vector<at::Tensor> inputs = stack.parameters_of(k);
    inputs.insert(inputs.begin(), leaf[0]);
    const auto expected_gradients = torch::autograd::grad({expected[0]}, inputs, {cotangents[0][k]}, {}, false, /*allow_unused=*/true);
    // float64, tens of rounding errors
    EXPECT_LE(relative_difference(to[0][k], expected[0].detach()), 1e-14) << k;
    EXPECT_LE(relative_difference(all[0][k], expected_gradients[0]), 1e-13) << k;
    for (size_t p = 0; p < gradients.size(); ++p) {
      const at::Tensor theirs = expected_gradients[p + 1].defined() ? expected_gradients[p + 1] : torch::zeros_like(gradients[p][k]);
      EXPECT_LE(relative_difference(gradients[p][k], theirs), 1e-13) << "layer " << k << ", parameter " << p;
    }
    if (k % 2 == 1) {
      EXPECT_LE(relative_difference(without_parameters[0][k / 2], expected_gradients[0]), 1e-13) << k;
    }
  }
}

using T = const torch::Tensor&;
INSTANTIATE_TEST_SUITE_P(
    Rules, StepProgramCase,
    ::testing::Values(Case{"linear", [](T u, T w, T b, T) { return torch::linear(u, w, b); }},
                      Case{"linear_without_bias", [](T u, T w, T, T) { return torch::linear(u, w).tanh(); }},
                      Case{"linear_of_a_vector", [](T u, T w, T b, T) { return torch::linear(u, w, b).tanh(); }, {4}},
                      Case{"linear_of_three_dimensions", [](T u, T w, T b, T) { return torch::linear(u, w, b).sigmoid(); }, {2, 3, 4}},
                      Case{"addmm", [](T u, T w, T b, T) { return torch::addmm(b, u, w.t()).relu(); }},
                      Case{"matmul", [](T u, T w, T b, T) { return torch::matmul(u, w) + b; }, {2, 3, 4}},
                      Case{"antisymmetric", [](T u, T w, T b, T) { return torch::tanh(torch::matmul(u, w - w.t()) - 0.1 * u + b); }},
                      Case{"in_place", [](T u, T w, T b, T) { return torch::matmul(u, w).add_(b).tanh_(); }},
                      Case{"products", [](T u, T w, T b, T e) { return u * b * torch::linear(u, w) * e * 3; }},
                      Case{"quotient_and_sums", [](T u, T w, T b, T e) { return (2 + u - b) / 4 + torch::sub(e, torch::linear(u, w), 0.5); }},
                      Case{"negative", [](T u, T w, T, T) { return -torch::linear(u, w); }},
                      Case{"other_names",
                           [](T u, T w, T b, T) { return u.multiply(b).negative().subtract(torch::linear(u, w)).divide(4).true_divide(3); }},
                      Case{"silu", [](T u, T w, T b, T) { return torch::silu(torch::linear(u, w, b)); }},
                      Case{"gelu", [](T u, T w, T b, T) { return torch::gelu(torch::linear(u, w, b)); }},
                      Case{"gelu_by_tanh", [](T u, T w, T b, T) { return torch::gelu(torch::linear(u, w, b), "tanh"); }},
                      Case{"sine_and_cosine", [](T u, T w, T b, T) { return torch::linear(u.sin(), w, b).cos(); }},
                      Case{"a_value_used_twice",
                           [](T u, T w, T b, T) {
                             const torch::Tensor y = torch::linear(u, w, b);
                             return y.tanh() * y + y.tanh();
                           }},
                      Case{"no_parameter", [](T u, T, T, T) { return u.tanh(); }},
                      Case{"midpoint_rule", [](T u, T w, T b, T) { return torch::linear(u, w, b).tanh(); }, {3, 4}, Integrator::rk2},
                      Case{"runge_kutta", [](T u, T w, T b, T e) { return torch::linear(u * e, w, b).tanh(); }, {3, 4}, Integrator::rk4}),
    [](const ::testing::TestParamInfo<Case>& one) { return one.param.name; });

/// Operations without rules, with a member, an in-place change of the layer's input, a list of tensors, and a number that all layers share.
TEST(VmappedStep, EqualsAutogradLayerByLayer) {
  const torch::Tensor mask = torch::rand({4}, torch::kDouble);
  const FunctionImpl::F f = [&](T u, T w, T b, T e) {
    const torch::Tensor y = torch::softmax(torch::layer_norm(torch::linear(u, w, b), {4}) * mask, -1).cumsum(1);
    return torch::cat({y, u.clone().mul_(e)}, 1).narrow(1, 2, 4) / (1 + u * u);
  };
  torch::manual_seed(1);
  const LayerStack stack(block([&] { return Function(f); }, layers), {0, layers}, 1, 0);
  const torch::Tensor states = torch::randn({layers, 3, 4}, torch::kDouble).set_requires_grad(true);
  const torch::Tensor cotangents = torch::randn({layers, 3, 4}, torch::kDouble);
  const State extras{torch::randn({4}, torch::kDouble)};
  const VmappedStep vmapped(step_graph(stack, 0, Integrator::rk2, {states[0].detach()}, extras, dt));
  std::vector<at::Tensor> parameters;
  for (const StackedTensor& p : stack.parameters()) parameters.push_back(p.stack);
  const State to = vmapped.run({states}, extras, parameters);
  const auto gradients = torch::autograd::grad({to[0]}, {states, parameters[0], parameters[1]}, {cotangents});
  for (int64_t k = 0; k < layers; ++k) {
    const State leaf{states[k].detach().clone().set_requires_grad(true)};
    const State expected = step(stack.layer(k), Integrator::rk2, leaf, extras, dt);
    std::vector<at::Tensor> inputs = stack.parameters_of(k);
    inputs.insert(inputs.begin(), leaf[0]);
    const auto expected_gradients = torch::autograd::grad({expected[0]}, inputs, {cotangents[k]});
    // float64, hundreds of rounding errors
    EXPECT_LE(relative_difference(to[0][k].detach(), expected[0].detach()), 1e-13) << k;
    for (size_t i = 0; i < gradients.size(); ++i) EXPECT_LE(relative_difference(gradients[i][k], expected_gradients[i]), 1e-12) << k << ", " << i;
  }
}

std::string problem_of(const FunctionImpl::F& f, const std::vector<int64_t>& shape = {3, 4}) {
  const LayerStack stack(block([&] { return Function(f); }, 2), {0, 2}, 1, 0);
  const State extras{torch::randn({4}, torch::kDouble)};
  const graph::Graph graph = step_graph(stack, 0, Integrator::euler, {torch::randn(shape, torch::kDouble)}, extras, dt);
  std::string problem;
  EXPECT_EQ(StepProgram::compile(graph, 1, 1, problem), nullptr);
  return problem;
}

TEST(StepProgram, RefusesWhatItHasNoRuleFor) {
  EXPECT_NE(problem_of([](T u, T, T, T) { return u.cumsum(0); }).find("no rule for aten::cumsum"), std::string::npos);
  EXPECT_NE(problem_of([](T u, T, T, T) { return u / (u * u + 1); }).find("no rule for aten::div"), std::string::npos);
  EXPECT_NE(problem_of([](T u, T w, T b, T) { return torch::addmm(b, u, w, 0.5); }).find("no rule for aten::addmm"), std::string::npos);
  // An in-place change that another operation sees.
  EXPECT_NE(problem_of([](T u, T w, T, T) {
              const torch::Tensor y = torch::linear(u, w);
              const torch::Tensor z = y * 2;
              return y.tanh_() + z;
            }).find("no rule for aten::tanh_"),
            std::string::npos);
  EXPECT_NE(problem_of([](T u, T w, T, T) { return torch::linear(u.to(torch::kFloat), w.to(torch::kFloat)).to(torch::kDouble); }).find("no rule"),
            std::string::npos);
}

}  // namespace step_program_test
}  // namespace tw::layer_parallel
