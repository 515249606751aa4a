// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/pending_scalar.hpp>
#include <tw/gradients/clipping.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>

namespace tw {
namespace {

double sum_of_squares(const std::vector<at::Tensor>& gradients, const std::vector<const Communicator*>& waiting) {
  if (gradients.empty()) return 0;
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients) {
    const auto wide = c10::isComplexType(gradient.scalar_type()) ? at::kComplexDouble : at::kDouble;
    const at::Tensor values = gradient.is_sparse() ? gradient.coalesce().values() : gradient;
    norms.push_back(at::linalg_vector_norm(values, 2, {}, false, wide).abs());
  }
  const at::Tensor squares = at::stack(norms).square().sum();
  return waiting.empty() ? squares.item<double>() : PendingScalar(squares).value(*waiting.front());  // the host waits once
}

/// Totals over all ranks.
struct Counted {
  double squares = 0;
  double gradients = 0;
};

Counted count(const GradientShare& share) {
  const at::NoGradGuard no_grad;
  const at::Tensor total = at::zeros({2}, at::TensorOptions().dtype(at::kDouble));
  auto* const values = total.mutable_data_ptr<double>();
  values[0] = sum_of_squares(share.counted, share.sum_over);
  values[1] = static_cast<double>(share.counted.size());
  for (const Communicator* comm : share.sum_over) allreduce(*comm, total, ReduceOp::sum);
  return {values[0], values[1]};
}

double clip(const GradientShare& share, const Counted& counted, double max_norm) {
  const at::NoGradGuard no_grad;
  const double norm = std::sqrt(counted.squares);
  const double factor = max_norm / (norm + 1e-6);
  if (!std::isfinite(norm) || factor >= 1) return norm;
  for (const at::Tensor& gradient : share.counted) gradient.mul_(factor);
  for (const at::Tensor& gradient : share.others) gradient.mul_(factor);
  return norm;
}

void expect_positive(double max_norm) { TW_EXPECTS(max_norm > 0, "max_norm must be positive, got ", max_norm); }

}  // namespace

bool is_counted_elsewhere(const ModelPartsList& parts, const std::string& name) {
  return std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part->counted_elsewhere.contains(name); });
}

double clip_gradient_norm(const GradientShare& share, double max_norm) {
  expect_positive(max_norm);
  return clip(share, count(share), max_norm);
}

double clip_gradient_norm(const Communicator& comm, const std::vector<at::Tensor>& gradients, double max_norm) {
  return clip_gradient_norm({.counted = gradients, .sum_over = {&comm}}, max_norm);
}

double clip_gradient_norm(const torch::nn::Module& module, double max_norm) {
  const auto* trained = dynamic_cast<const TrainableModel*>(&module);
  TW_EXPECTS(trained == nullptr || trained->axes().empty(), "this module is split over ranks along the axis '", trained->axes().front(),
             "': clip its gradients by Pipeline::clip_grad_norm(), or by clip_gradient_norm(comm, gradients, max_norm) if no element is "
             "on two ranks");
  return clip_gradient_norm(model_tensors(module).parameters, model_parts(module), max_norm);
}

double clip_gradient_norm(const std::vector<NamedTensor>& parameters, const ModelPartsList& parts, double max_norm) {
  expect_positive(max_norm);
  GradientShare share;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.grad().defined()) (is_counted_elsewhere(parts, name) ? share.others : share.counted).push_back(tensor.grad());
  }
  for (const auto& part : parts) share.sum_over.push_back(&part->ranks);
  const Counted counted = count(share);
  TW_EXPECTS(counted.gradients > 0,
             "no parameter has a gradient to clip: call backward() first. Sharded gradients are not in .grad(): clip them by clip_gradient_norm() of "
             "ShardedOptimizer or FullySharded");
  return clip(share, counted, max_norm);
}

}  // namespace tw
