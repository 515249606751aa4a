// SPDX-License-Identifier: Apache-2.0
#include "same_numbers.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <tw/autograd/autocast.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/graph/interpreter.hpp>

namespace tw {
namespace {

using Tensors = std::vector<at::Tensor>;
using ByName = std::map<std::string, at::Tensor>;

struct Pass {
  Tensors outputs;
  ByName gradients;
};

/// A pass with copies of the tensors, since it may change them. The cotangents are the same in each call.
Pass pass_of(const graph::Graph& graph, const ByName& tensors, const Tensors& inputs) {
  const c10::AutoGradMode with_gradients(true);
  const AutocastScope plain(AutocastState::here().off());
  ByName leaves;
  std::map<const c10::TensorImpl*, at::Tensor> copies;  // names of one tensor stay one tensor
  for (const auto& [name, tensor] : tensors) {
    at::Tensor& copy = copies[tensor.unsafeGetTensorImpl()];
    if (!copy.defined()) copy = tensor.detach().clone().set_requires_grad(tensor.requires_grad());
    leaves[name] = copy;
  }
  // An operation in place refuses leaves that require gradients, except without autograd, where it works on them as they are.
  const graph::Interpreter run(graph, [&](const std::string& name) { return leaves.at(name); });
  Pass pass{.outputs = run.run(inputs, {.rows = inputs.front().size(0)}), .gradients = {}};
  at::Generator numbers = at::make_generator<at::CPUGeneratorImpl>(7);
  Tensors from;
  Tensors with;
  for (const at::Tensor& each : pass.outputs) {
    if (!each.requires_grad()) continue;
    from.push_back(each);
    with.push_back(at::randn(each.sizes(), numbers, at::TensorOptions(at::kDouble)).to(each.scalar_type()));
  }
  if (from.empty()) return pass;
  torch::autograd::backward(from, with);
  for (const auto& [name, leaf] : leaves) {
    if (leaf.requires_grad()) pass.gradients[name] = leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf);
  }
  return pass;
}

/// Rounding of another order of summation, relative to the largest number. Wrong numbers are wrong by much more.
double tolerance_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kDouble) return 1e-9;
  return tensor.scalar_type() == at::kFloat ? 1e-3 : 5e-2;
}

double largest(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.detach().to(at::kDouble).nan_to_num(0, 0, 0).abs().max().item<double>();
}

/// @param scale of the numbers with which they are computed
bool differ(const at::Tensor& a, const at::Tensor& b, double scale) {
  if (!a.sizes().equals(b.sizes())) return true;
  return largest(a.detach().to(at::kDouble) - b.detach().to(at::kDouble)) > tolerance_of(a) * scale;
}

/// The part of `whole` with the shape of `slice` on this rank; all of it if the shapes are equal.
at::Tensor part_like(const at::Tensor& whole, const at::Tensor& slice, int rank) {
  for (int64_t d = 0; d < whole.dim(); ++d) {
    if (slice.size(d) != whole.size(d)) return whole.narrow(d, rank * slice.size(d), slice.size(d));
  }
  return whole;
}

}  // namespace

void expect_same_numbers(const Communicator& holders, const graph::Graph& whole, const graph::Graph& parts, const ByName& tensors,
                         const ByName& slices, const Tensors& example) {
  const int64_t rows = std::min(example.front().size(0), std::max<int64_t>(3, whole.min_rows));  // other than the experiments have
  Tensors inputs;
  for (const at::Tensor& each : example) inputs.push_back(each.narrow(0, 0, rows));
  const Pass expected = on_all_ranks(holders, "running the module that was divided along `tensor`", [&] { return pass_of(whole, tensors, inputs); });
  on_all_ranks(holders, "comparing a module that was divided along `tensor` with the whole one", [&] {
    const Pass found = pass_of(parts, slices, inputs);
    const std::string advice = ": this is a fault of the division; please report it, and use split layers meanwhile";
    for (size_t i = 0; i < expected.outputs.size(); ++i) {
      if (differ(expected.outputs[i], found.outputs[i], largest(expected.outputs[i]))) throw Error(concat("output ", i, " differs", advice));
    }
    double scale = 0;
    for (const auto& [name, gradient] : expected.gradients) scale = std::max(scale, largest(gradient));
    for (const auto& [name, gradient] : found.gradients) {
      const auto known = expected.gradients.find(name);
      const at::Tensor of_whole = known == expected.gradients.end() ? at::zeros_like(gradient) : known->second;
      if (differ(part_like(of_whole, gradient, holders.rank()), gradient, scale)) throw Error(concat("the gradient of ", name, " differs", advice));
    }
  });
}

}  // namespace tw
