// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/randn_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <tw/autograd/generator.hpp>
#include <tw/base/concat.hpp>
#include <tw/layer_parallel/check_layer.hpp>
#include <tw/parallel_in_time/states.hpp>

#include "named_layer.hpp"

namespace tw::layer_parallel {
namespace {

bool equal(const State& a, const State& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].equal(b[i])) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> check_layer(const Block& block, const State& example, double dt, const State& extras) {
  std::vector<std::string> problems;
  const Layer layer = named_layer(block.make(0), "layer 0", true);
  const Layer other = block.make(1);
  if (layer.module == other.module) problems.emplace_back("the factory returns the same layer twice");

  GeneratorGuard generator;
  const auto stepped = [&](const State& from, double by) {
    if (block.options.random) generator.seed(1, 0);
    return step(layer, block.options.integrator, from, extras, by);
  };
  const State from = each(example, [](const at::Tensor& t) { return t.detach().clone().set_requires_grad(t.is_floating_point()); });
  State to;
  try {
    to = stepped(from, dt);
  } catch (const std::exception& e) {
    return {e.what()};
  }
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].scalar_type() != from[i].scalar_type()) {
      problems.push_back(concat("tensor ", i, " of the state has dtype ", from[i].scalar_type(), ", but the step returns ", to[i].scalar_type()));
    }
    if (to[i].is_floating_point() && !to[i].isfinite().all().item<bool>())
      problems.push_back(concat("tensor ", i, " of the step's result is not finite"));
  }
  if (!problems.empty()) return problems;
  if (!equal(to, stepped(from, dt))) {
    problems.emplace_back("equal inputs gave different results: random layers need BlockOptions::random, and a layer must not keep a state");
  }
  if (equal(to, stepped(from, 2 * dt))) problems.emplace_back("the step does not depend on dt");

  std::vector<at::Tensor> inputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!from[i].requires_grad()) continue;
    inputs.push_back(from[i]);
    names.push_back(concat("tensor ", i, " of the state"));
  }
  for (const auto& p : layer.module->named_parameters()) {
    if (!p.value().requires_grad()) continue;
    inputs.push_back(p.value());
    names.push_back(concat("parameter '", p.key(), "'"));
  }
  std::vector<at::Tensor> reached;
  std::vector<at::Tensor> cotangents;
  for (const at::Tensor& tensor : to) {
    if (!tensor.requires_grad()) continue;
    reached.push_back(tensor);
    cotangents.push_back(at::randn_like(tensor));
  }
  std::vector<at::Tensor> gradients(inputs.size());
  if (!reached.empty()) gradients = torch::autograd::grad(reached, inputs, cotangents, false, false, /*allow_unused=*/true);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) problems.push_back(concat("no gradient reaches ", names[i]));
  }
  return problems;
}

}  // namespace tw::layer_parallel
