// SPDX-License-Identifier: Apache-2.0
#include "step_rules.hpp"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/add.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/div.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>

#include <algorithm>
#include <array>
#include <tuple>

namespace tw::layer_parallel {
namespace {

using Tensors = std::vector<at::Tensor>;  // by value
using Values = std::vector<Value>;

/// Inserts dimensions of 1 after the layer dimension. Among stacked tensors of `rank` dimensions it then broadcasts like one layer's tensor.
at::Tensor aligned(const Value& value, const at::Tensor& tensor, size_t rank) {
  if (!value.stacked || value.sizes.size() >= rank) return tensor;
  std::vector<int64_t> shape(rank + 1, 1);
  shape[0] = tensor.size(0);
  std::copy(value.sizes.begin(), value.sizes.end(), shape.end() - static_cast<std::ptrdiff_t>(value.sizes.size()));
  return tensor.reshape(shape);
}

at::Scalar number(const graph::Argument& argument) {
  if (const auto* size = std::get_if<graph::Size>(&argument)) return size->fixed;
  if (const auto* flag = std::get_if<bool>(&argument)) return *flag;
  return std::get<double>(argument);
}

/// Stacked matrices: all dimensions between the first and the last one are merged.
at::Tensor matrices(const at::Tensor& stacked) { return stacked.dim() == 3 ? stacked : stacked.reshape({stacked.size(0), -1, stacked.size(-1)}); }

at::Tensor like(const at::Tensor& matrices, const at::Tensor& first, int64_t columns) {
  if (first.dim() == 3) return matrices;
  std::vector<int64_t> shape = first.sizes().vec();
  shape.back() = columns;
  return matrices.view(shape);
}

/// Rules for pointwise functions.
template <at::Tensor (*function)(const at::Tensor&), at::Tensor& (*in_place)(at::Tensor&)>
at::Tensor pointwise(const Operation& op, const Values&, const Tensors& tensors) {
  at::Tensor input = tensors[op.inputs[0]];
  return op.in_place ? in_place(input) : function(input);
}

/// x w^T + b, stacked.
at::Tensor linear(const Operation& op, const Values& values, const Tensors& tensors) {
  const at::Tensor& x = tensors[op.inputs[0]];
  const at::Tensor w = tensors[op.inputs[1]].transpose(1, 2);
  const at::Tensor product =
      op.inputs.size() == 2 ? at::bmm(matrices(x), w) : at::baddbmm(aligned(values[op.inputs[2]], tensors[op.inputs[2]], 2), matrices(x), w);
  return like(product, x, w.size(2));
}

void linear_transposed(const Operation& op, const Values&, const Tensors& tensors, const at::Tensor& cotangent, Cotangents& cotangents) {
  const at::Tensor g = matrices(cotangent);
  const size_t x = op.inputs[0];
  const size_t w = op.inputs[1];
  if (cotangents.wants(x)) cotangents.add_product(x, g, tensors[w]);
  if (cotangents.wants(w)) cotangents.add_product(w, g.transpose(1, 2), matrices(tensors[x]));
  if (op.inputs.size() == 3 && cotangents.wants(op.inputs[2])) cotangents.add(op.inputs[2], g.sum(1));
}

bool linear_holds(const Operation& op, const Values& values) {
  return std::all_of(op.inputs.begin(), op.inputs.end(), [&](size_t v) { return values[v].stacked; }) && values[op.inputs[1]].sizes.size() == 2;
}

bool is_stacked_matrix(const Operation& op, const Values& values) { return values[op.inputs[0]].stacked && values[op.inputs[0]].sizes.size() == 2; }

bool matmul_holds(const Operation& op, const Values& values) {
  const Value& a = values[op.inputs[0]];
  const Value& b = values[op.inputs[1]];
  return a.stacked && b.stacked && a.sizes.size() >= 2 && b.sizes.size() == 2;
}

at::Tensor matmul(const Operation& op, const Values&, const Tensors& tensors) {
  const at::Tensor& a = tensors[op.inputs[0]];
  const at::Tensor& b = tensors[op.inputs[1]];
  return like(at::bmm(matrices(a), b), a, b.size(2));
}

/// c + a b, as LibTorch's Linear computes for a matrix.
bool addmm_holds(const Operation& op, const Values& values) {
  const auto is_one = [](const graph::Argument& factor) { return number(factor).toDouble() == 1; };
  return std::all_of(op.inputs.begin(), op.inputs.end(), [&](size_t v) { return values[v].stacked; }) &&
         std::all_of(op.constants.begin(), op.constants.end(), is_one);
}

at::Tensor addmm(const Operation& op, const Values& values, const Tensors& tensors) {
  return at::baddbmm(aligned(values[op.inputs[0]], tensors[op.inputs[0]], 2), tensors[op.inputs[1]], tensors[op.inputs[2]]);
}

void addmm_transposed(const Operation& op, const Values&, const Tensors& tensors, const at::Tensor& cotangent, Cotangents& cotangents) {
  const auto [c, a, b] = std::tuple(op.inputs[0], op.inputs[1], op.inputs[2]);
  if (cotangents.wants(c)) cotangents.add(c, cotangent);
  if (cotangents.wants(a)) cotangents.add_product(a, cotangent, tensors[b].transpose(1, 2));
  if (cotangents.wants(b)) cotangents.add_product(b, tensors[a].transpose(1, 2), cotangent);
}

void matmul_transposed(const Operation& op, const Values&, const Tensors& tensors, const at::Tensor& cotangent, Cotangents& cotangents) {
  const at::Tensor g = matrices(cotangent);
  const size_t a = op.inputs[0];
  const size_t b = op.inputs[1];
  if (cotangents.wants(a)) cotangents.add_product(a, g, tensors[b].transpose(1, 2));
  if (cotangents.wants(b)) cotangents.add_product(b, matrices(tensors[a]).transpose(1, 2), g);
}

/// a + sign * alpha * b
template <int sign>
at::Tensor sum(const Operation& op, const Values& values, const Tensors& tensors) {
  const at::Scalar alpha = number(op.constants.back());
  const at::Scalar factor = alpha.isFloatingPoint() ? at::Scalar(sign * alpha.toDouble()) : at::Scalar(sign * alpha.toLong());
  const at::Tensor& a = tensors[op.inputs[0]];
  if (op.inputs.size() == 1) return at::add(a, number(op.constants[0]), factor);
  const size_t rank = values[op.output].sizes.size();
  return at::add(aligned(values[op.inputs[0]], a, rank), aligned(values[op.inputs[1]], tensors[op.inputs[1]], rank), factor);
}

template <int sign>
void sum_transposed(const Operation& op, const Values&, const Tensors&, const at::Tensor& cotangent, Cotangents& cotangents) {
  if (cotangents.wants(op.inputs[0])) cotangents.add(op.inputs[0], cotangent);
  if (op.inputs.size() == 2 && cotangents.wants(op.inputs[1])) {
    cotangents.add(op.inputs[1], cotangent, sign * number(op.constants.back()).toDouble());
  }
}

void neg_transposed(const Operation& op, const Values&, const Tensors&, const at::Tensor& cotangent, Cotangents& cotangents) {
  cotangents.add(op.inputs[0], cotangent, -1);
}

at::Tensor product(const Operation& op, const Values& values, const Tensors& tensors) {
  const at::Tensor& a = tensors[op.inputs[0]];
  if (op.inputs.size() == 1) return at::mul(a, number(op.constants[0]));
  const size_t rank = values[op.output].sizes.size();
  return at::mul(aligned(values[op.inputs[0]], a, rank), aligned(values[op.inputs[1]], tensors[op.inputs[1]], rank));
}

void product_transposed(const Operation& op, const Values& values, const Tensors& tensors, const at::Tensor& cotangent, Cotangents& cotangents) {
  if (op.inputs.size() == 1) return cotangents.add(op.inputs[0], cotangent, number(op.constants[0]));
  const size_t rank = values[op.output].sizes.size();
  for (const size_t i : {0, 1}) {
    const size_t other = op.inputs[1 - i];
    if (cotangents.wants(op.inputs[i])) cotangents.add(op.inputs[i], at::mul(cotangent, aligned(values[other], tensors[other], rank)));
  }
}

bool by_number(const Operation& op, const Values&) { return op.inputs.size() == 1 && op.constants.size() == 1; }

at::Tensor quotient(const Operation& op, const Values&, const Tensors& tensors) { return at::div(tensors[op.inputs[0]], number(op.constants[0])); }

void quotient_transposed(const Operation& op, const Values&, const Tensors&, const at::Tensor& cotangent, Cotangents& cotangents) {
  cotangents.add(op.inputs[0], at::div(cotangent, number(op.constants[0])));
}

/// d(function)/d(input) times the cotangent, from the function's output.
using FromOutput = at::Tensor (*)(const at::Tensor& cotangent, const at::Tensor& output);
template <FromOutput derivative>
void from_output(const Operation& op, const Values&, const Tensors& tensors, const at::Tensor& cotangent, Cotangents& cotangents) {
  cotangents.add(op.inputs[0], derivative(cotangent, tensors[op.output]));
}

/// The same, from the function's input.
using FromInput = at::Tensor (*)(const Operation& op, const at::Tensor& cotangent, const at::Tensor& input);
template <FromInput derivative>
void from_input(const Operation& op, const Values&, const Tensors& tensors, const at::Tensor& cotangent, Cotangents& cotangents) {
  cotangents.add(op.inputs[0], derivative(op, cotangent, tensors[op.inputs[0]]));
}

const std::array rules = {
    Rule{.name = "linear", .keeps_inputs = true, .holds = linear_holds, .forward = linear, .transposed = linear_transposed},
    Rule{.name = "matmul", .keeps_inputs = true, .holds = matmul_holds, .forward = matmul, .transposed = matmul_transposed},
    Rule{.name = "addmm", .keeps_inputs = true, .holds = addmm_holds, .forward = addmm, .transposed = addmm_transposed},
    Rule{.name = "t",
         .holds = is_stacked_matrix,
         .forward = [](const Operation& op, const Values&, const Tensors& tensors) { return tensors[op.inputs[0]].transpose(1, 2); },
         .transposed = [](const Operation& op, const Values&, const Tensors&, const at::Tensor& g,
                          Cotangents& c) { c.add(op.inputs[0], g.transpose(1, 2)); }},
    Rule{.name = "add", .forward = sum<1>, .transposed = sum_transposed<1>},
    Rule{.name = "sub", .forward = sum<-1>, .transposed = sum_transposed<-1>},
    Rule{.name = "mul", .keeps_inputs = true, .forward = product, .transposed = product_transposed},
    Rule{.name = "div", .holds = by_number, .forward = quotient, .transposed = quotient_transposed},
    Rule{.name = "neg", .forward = pointwise<at::neg, at::neg_>, .transposed = neg_transposed},
    Rule{.name = "tanh", .keeps_output = true, .forward = pointwise<at::tanh, at::tanh_>, .transposed = from_output<at::tanh_backward>},
    Rule{.name = "sigmoid", .keeps_output = true, .forward = pointwise<at::sigmoid, at::sigmoid_>, .transposed = from_output<at::sigmoid_backward>},
    Rule{.name = "relu",
         .keeps_output = true,
         .forward = pointwise<at::relu, at::relu_>,
         .transposed = from_output<[](const at::Tensor& g, const at::Tensor& y) { return at::threshold_backward(g, y, 0); }>},
    Rule{.name = "silu",
         .keeps_inputs = true,
         .forward = pointwise<at::silu, at::silu_>,
         .transposed = from_input<[](const Operation&, const at::Tensor& g, const at::Tensor& x) { return at::silu_backward(g, x); }>},
    Rule{.name = "gelu",
         .keeps_inputs = true,
         .forward = [](const Operation& op, const Values&,
                       const Tensors& tensors) { return at::gelu(tensors[op.inputs[0]], std::get<std::string>(op.constants[0])); },
         .transposed = from_input<[](const Operation& op, const at::Tensor& g, const at::Tensor& x) {
           return at::gelu_backward(g, x, std::get<std::string>(op.constants[0]));
         }>},
    Rule{.name = "sin",
         .keeps_inputs = true,
         .forward = pointwise<at::sin, at::sin_>,
         .transposed = from_input<[](const Operation&, const at::Tensor& g, const at::Tensor& x) { return at::mul(g, at::cos(x)); }>},
    Rule{.name = "cos",
         .keeps_inputs = true,
         .forward = pointwise<at::cos, at::cos_>,
         .transposed = from_input<[](const Operation&, const at::Tensor& g, const at::Tensor& x) { return at::mul(g, at::sin(x).neg_()); }>},
};

/// Aliases in LibTorch with the same arguments.
struct OtherName {
  std::string_view name;
  std::string_view rule;
};
constexpr std::array<OtherName, 5> other_names = {
    {{"subtract", "sub"}, {"multiply", "mul"}, {"divide", "div"}, {"true_divide", "div"}, {"negative", "neg"}}};

}  // namespace

const Rule* rule_of(std::string_view op) {
  op.remove_prefix(std::min(op.size(), std::string_view("aten::").size()));
  if (op.ends_with('_')) op.remove_suffix(1);
  const auto* const other = std::ranges::find(other_names, op, &OtherName::name);
  if (other != other_names.end()) op = other->rule;
  const auto* const found = std::ranges::find(rules, op, &Rule::name);
  return found == rules.end() ? nullptr : found;
}

void Cotangents::add(size_t value, at::Tensor cotangent, const at::Scalar& factor) {
  const std::vector<int64_t>& sizes = values_[value].sizes;
  if (cotangent.sizes().slice(1) != at::IntArrayRef(sizes)) {
    std::vector<int64_t> shape(static_cast<size_t>(cotangent.dim()), 1);
    shape[0] = cotangent.size(0);
    std::copy(sizes.rbegin(), sizes.rend(), shape.rbegin());
    cotangent = at::sum_to(cotangent, shape);
    shape.erase(shape.begin() + 1, shape.end() - static_cast<std::ptrdiff_t>(sizes.size()));
    cotangent = cotangent.view(shape);
  }
  if (targets_[value].defined()) {
    targets_[value].add_(cotangent, factor);
  } else if (sums_[value].defined()) {
    sums_[value] = at::add(sums_[value], cotangent, factor);
  } else {
    sums_[value] = factor.equal(1) ? cotangent : at::mul(cotangent, factor);
  }
}

void Cotangents::add_product(size_t value, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor& sum = targets_[value].defined() ? targets_[value] : sums_[value];
  if (values_[value].sizes.size() != 2) {
    std::vector<int64_t> shape = values_[value].sizes;
    shape.insert(shape.begin(), a.size(0));
    return add(value, at::bmm(a, b).view(shape));
  }
  if (targets_[value].defined()) {
    sum.baddbmm_(a, b);
  } else {
    sum = sum.defined() ? at::baddbmm(sum, a, b) : at::bmm(a, b);
  }
}

}  // namespace tw::layer_parallel
