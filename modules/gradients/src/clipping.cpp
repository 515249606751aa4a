// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/reading.hpp>
#include <tw/gradients/clipping.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <cmath>

namespace tw {

double clip_gradient_norm(const Communicator& comm, const std::vector<at::Tensor>& gradients, double max_norm) {
  TW_EXPECTS(max_norm > 0, "max_norm must be positive, got ", max_norm);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients) {
    const auto wide = c10::isComplexType(gradient.scalar_type()) ? at::kComplexDouble : at::kDouble;
    norms.push_back(at::linalg_vector_norm(gradient, 2, {}, false, wide).abs());
  }
  const double squares = norms.empty() ? 0 : Reading(at::stack(norms).square().sum()).value(comm);  // the host's one wait
  const at::Tensor total = at::scalar_tensor(squares, at::TensorOptions().dtype(at::kDouble));
  allreduce(comm, total, ReduceOp::sum);
  const double norm = std::sqrt(total.item<double>());
  const double factor = max_norm / (norm + 1e-6);
  if (std::isfinite(norm) && factor < 1) {
    for (const at::Tensor& gradient : gradients) gradient.mul_(factor);
  }
  return norm;
}

}  // namespace tw
