// SPDX-License-Identifier: Apache-2.0
#include "slice_gradients.hpp"

#include <ATen/ops/empty.h>

#include <tw/base/contract.hpp>

namespace tw {

at::Tensor SliceGradients::watched(const at::Tensor& gradient) const {
  c10::Storage storage(c10::Storage::use_byte_size_t(), gradient.nbytes(),
                       watched_pointer(gradient.mutable_data_ptr(), memory_, std::make_shared<at::Tensor>(gradient), gradient.device()), nullptr,
                       false);
  at::Tensor alias = at::empty({0}, gradient.options()).set_(storage, 0, gradient.sizes(), gradient.strides());
  watch(alias);
  return alias;
}

void SliceGradients::before_operator(std::span<const Taken> /*taken*/, const std::string& op) {
  TW_EXPECTS(op != "aten::norm",
             "a norm of this rank's slices alone is not the norm of the gradient: clip by FullySharded::clip_gradient_norm() in place "
             "of clip_grad_norm_()");
  TW_EXPECTS(op != "aten::cat",
             "the slices' gradients are joined, as optimizers do that treat elements together (LBFGS): FullySharded is for those that "
             "treat each element for itself, such as SGD and Adam");
}

}  // namespace tw
