// SPDX-License-Identifier: Apache-2.0
// Gradients of a model of which each rank holds a part. A number computed from one rank's gradients alone is not that of the whole model: LibTorch's
// clip_grad_norm_() would scale each part by another factor, and LBFGS would take different steps. Code that makes a part guards its gradients.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace tw {

/// Guards the gradients of `parameter`, whose model has other elements on other ranks. From now on, operators on `.grad()` that combine elements
/// throw ContractError: norm(), as in clip_grad_norm_(), and cat(), as in LBFGS. Element-wise operators and torch::linalg_vector_norm() are allowed.
/// The guard covers gradients that backward passes or set_gradient() put there, unless they are sparse. Local.
/// @param clip what to call instead, such as "Pipeline::clip_grad_norm()"; the text of a later call replaces it
void guard_gradient(const at::Tensor& parameter, const std::string& clip);
/// Whether guard_gradient() was called for `parameter`. Local.
bool has_guarded_gradient(const at::Tensor& parameter);

/// Sets `.grad()` of `parameter` to `gradient`, or, if the gradients of `parameter` are guarded, to a tensor that shares its memory. Local.
void set_gradient(const at::Tensor& parameter, const at::Tensor& gradient);
/// The gradient of `parameter` without its guard; undefined if there is none. It is the tensor that was passed to set_gradient(), if that put
/// `.grad()` there. Local.
at::Tensor gradient_of(const at::Tensor& parameter);

}  // namespace tw
