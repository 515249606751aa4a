// SPDX-License-Identifier: Apache-2.0
#include "slice_gradients.hpp"

#include <ATen/ops/empty.h>

#include <tw/base/contract.hpp>

namespace tw {

at::Tensor SliceGradients::watched(const at::Tensor& gradient) const {
  const c10::Storage storage(c10::Storage::use_byte_size_t(), gradient.nbytes(),
                             watched_pointer(gradient.mutable_data_ptr(), memory_, std::make_shared<at::Tensor>(gradient), gradient.device()),
                             nullptr, false);
  at::Tensor alias = at::empty({0}, gradient.options()).set_(storage, 0, gradient.sizes(), gradient.strides());
  watch(alias);
  return alias;
}

at::Tensor SliceGradients::unwatched(const at::Tensor& gradient) const {
  const std::shared_ptr<void> kept = kept_by(gradient, *this);
  return kept == nullptr ? gradient : *static_cast<at::Tensor*>(kept.get());
}

void SliceGradients::before_operator(std::span<const WatchedArgument> /*arguments*/, const std::string& op) {
  TW_EXPECTS(op != "aten::norm",
             "the norm of this rank's gradients, as in clip_grad_norm_(), is not the norm of the whole model's gradients: clip by "
             "FullySharded::clip_gradient_norm(), or clip_grad_norm() of a ParallelModel; to look at one gradient, use torch::linalg_vector_norm()");
  TW_EXPECTS(op != "aten::cat",
             "an operator concatenates this rank's gradients, as optimizers that combine elements do (LBFGS): other ranks have parts of this model, "
             "which needs an optimizer that updates each element independently, such as SGD or Adam");
}

}  // namespace tw
