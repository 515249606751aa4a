// SPDX-License-Identifier: Apache-2.0
#include "same_numbers.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <tw/autograd/autocast.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/graph/interpreter.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/splits/split_graphs.hpp>
#include <tw/tensor/memory_order.hpp>

namespace tw {
namespace {

using Tensors = std::vector<at::Tensor>;
using ByName = std::map<std::string, at::Tensor>;

struct Pass {
  Tensors outputs;
  ByName gradients;
};

/// A pass with copies of the tensors, since it may change them. The cotangents are the same in each call.
Pass pass_of(const graph::Graph& graph, const ByName& tensors, const Tensors& inputs, bool with_gradients) {
  const c10::AutoGradMode gradients(with_gradients);
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
  const at::ScalarType type = c10::toRealValueType(tensor.scalar_type());
  if (type == at::kDouble) return 1e-9;
  return type == at::kFloat ? 1e-3 : 5e-2;
}

/// Numbers in float64, complex ones as pairs.
at::Tensor reals(const at::Tensor& tensor) {
  const at::Tensor numbers = tensor.detach();
  return (numbers.is_complex() ? at::view_as_real(numbers.resolve_conj()) : numbers).to(at::kDouble);
}

double largest(const at::Tensor& tensor) { return tensor.numel() == 0 ? 0 : reals(tensor).nan_to_num(0, 0, 0).abs().max().item<double>(); }

/// Of numbers that are not integers.
double largest(const Tensors& tensors) {
  double all = 0;
  for (const at::Tensor& each : tensors) {
    if (each.is_floating_point() || each.is_complex()) all = std::max(all, largest(each));
  }
  return all;
}

/// @param scale of the numbers with which they are computed
bool differ(const at::Tensor& a, const at::Tensor& b, double scale) {
  if (!a.sizes().equals(b.sizes()) || a.scalar_type() != b.scalar_type()) return true;
  // Integers and booleans may follow from the last bit of a number, as those of argmax() do.
  if (!a.is_floating_point() && !a.is_complex()) return a.ne(b).sum().item<int64_t>() * 2 > a.numel();
  const at::Tensor x = reals(a);
  const at::Tensor y = reals(b);
  const at::Tensor finite = x.isfinite();
  const at::Tensor same = x.eq(y).logical_or(x.isnan().logical_and(y.isnan())).logical_or(finite);
  if (!finite.equal(y.isfinite()) || !same.all().item<bool>()) return true;
  return largest((x - y).masked_fill(finite.logical_not(), 0)) > tolerance_of(a) * scale;
}

/// The part of `whole` with the shape of `slice` on this rank; all of it if the shapes are equal.
at::Tensor part_like(const at::Tensor& whole, const at::Tensor& slice, int rank) {
  for (int64_t d = 0; d < whole.dim(); ++d) {
    if (slice.size(d) != whole.size(d)) return whole.narrow(d, rank * slice.size(d), slice.size(d));
  }
  return whole;
}

/// The first name of what differs by more than rounding; empty: nothing.
std::string difference(const Pass& expected, const Pass& found, const Tensors& inputs, int rank) {
  // Numbers that are zero but for rounding, such as the difference of two equal paths, have the rounding of others.
  const double least = 1e-2 * std::max(largest(expected.outputs), largest(inputs));
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    const at::Tensor& output = expected.outputs[i];
    if (differ(output, found.outputs[i], std::max(largest(output), least))) return concat("output ", i);
  }
  double scale = 0;
  for (const auto& [name, gradient] : expected.gradients) scale = std::max(scale, largest(gradient));
  for (const auto& [name, gradient] : found.gradients) {
    const auto known = expected.gradients.find(name);
    const at::Tensor of_whole = known == expected.gradients.end() ? at::zeros_like(gradient) : known->second;
    // A gradient that is zero, as that of a bias before a normalisation, has the rounding of the others.
    if (differ(part_like(of_whole, gradient, rank), gradient, std::max(largest(of_whole), 1e-2 * scale))) return concat("the gradient of ", name);
  }
  return "";
}

}  // namespace

void expect_same_numbers(const Mesh& mesh, const ModuleForComparison& whole, const ModuleForComparison& parts, const Tensors& example) {
  const Communicator& holders = mesh["tensor"];
  for (const auto mode : {&graph::ModeGraphs::training, &graph::ModeGraphs::evaluation}) {
    const graph::Graph& graph = whole.graphs.*mode;
    const bool is_training = mode == &graph::ModeGraphs::training;
    const Tensors inputs = on_all_ranks(mesh.comm(), "choosing rows for a comparison",
                                        [&] { return splits::first_rows(example, std::max<int64_t>(3, graph.min_rows + 1)); });
    for (const at::Tensor& each : inputs) broadcast(holders, as_in_memory(each), Rank(0));
    const Pass expected = on_all_ranks(mesh.comm(), "running the whole module before it is divided along `tensor`",
                                       [&] { return pass_of(graph, whole.tensors, inputs, is_training); });
    const Pass found = on_all_ranks(mesh.comm(), "running the module that was divided along `tensor`", [&] {
      return revoke_on_exception(holders, [&] { return pass_of(parts.graphs.*mode, parts.tensors, inputs, is_training); });
    });
    on_all_ranks(mesh.comm(), "comparing a module that was divided along `tensor` with the whole one", [&] {
      const std::string differs = difference(expected, found, inputs, holders.rank());
      if (!differs.empty())
        throw Error(concat(differs, " differs: this is a fault of the division; please report it, and use split layers meanwhile"));
    });
  }
}

}  // namespace tw
