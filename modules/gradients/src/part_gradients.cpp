// SPDX-License-Identifier: Apache-2.0
#include <tw/gradients/part_gradients.hpp>

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <tw/autograd/operator_watch.hpp>
#include <tw/base/contract.hpp>

namespace tw {
namespace {

bool can_be_guarded(const at::Tensor& gradient) {
  if (!gradient.defined() || gradient.layout() != at::kStrided || gradient.requires_grad()) return false;
  return gradient.is_non_overlapping_and_dense() && !gradient.is_conj() && !gradient.is_neg();
}

/// Belongs to a parameter. Autograd calls it after it has added to the gradient.
class GradientGuard final : public torch::autograd::PostAccumulateGradHook, public MemoryOwner {
 public:
  GradientGuard() : memory_(std::make_shared<WatchedMemory>(this, 0, true)) {}
  ~GradientGuard() override { memory_->owner = nullptr; }
  GradientGuard(const GradientGuard&) = delete;
  GradientGuard& operator=(const GradientGuard&) = delete;

  void set_clip(const std::string& clip) { clip_ = clip; }
  void operator()(const at::Tensor& parameter) override { put(parameter, parameter.grad()); }
  void put(const at::Tensor& parameter, const at::Tensor& gradient) const {
    const bool is_new = can_be_guarded(gradient) && kept_by(gradient, *this) == nullptr;
    parameter.mutable_grad() = is_new ? guarded(gradient) : gradient;
  }
  /// The tensor whose memory put() guarded in `gradient`; otherwise `gradient` itself.
  at::Tensor unguarded(const at::Tensor& gradient) const {
    const std::shared_ptr<void> kept = gradient.defined() ? kept_by(gradient, *this) : nullptr;
    return kept == nullptr ? gradient : *static_cast<at::Tensor*>(kept.get());
  }

  void before_operator(std::span<const WatchedArgument> /*arguments*/, const std::string& op) override {
    TW_EXPECTS(op != "aten::norm",
               "the norm of this rank's gradients, as in clip_grad_norm_(), is not the norm of the whole model's gradients: clip by ", clip_,
               "; to look at one gradient, use torch::linalg_vector_norm()");
    TW_EXPECTS(
        op != "aten::cat",
        "an operator concatenates this rank's gradients, as optimizers that combine elements do (LBFGS): other ranks have parts of this model, "
        "which needs an optimizer that updates each element independently, such as SGD or Adam; clone() gradients that you only look at");
  }

 private:
  at::Tensor guarded(const at::Tensor& gradient) const {
    const c10::Storage storage(c10::Storage::use_byte_size_t(), gradient.nbytes(),
                               watched_pointer(gradient.mutable_data_ptr(), memory_, std::make_shared<at::Tensor>(gradient), gradient.device()),
                               nullptr, false);
    at::Tensor alias = at::empty({0}, gradient.options()).set_(storage, 0, gradient.sizes(), gradient.strides());
    watch(alias);
    return alias;
  }

  std::string clip_;
  std::shared_ptr<WatchedMemory> memory_;
};

/// Null: there is none.
GradientGuard* guard_of(const at::Tensor& parameter) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(parameter);
  return meta == nullptr ? nullptr : dynamic_cast<GradientGuard*>(meta->post_acc_grad_hooks_.get());
}

}  // namespace

void guard_gradient(const at::Tensor& parameter, const std::string& clip) {
  if (guard_of(parameter) == nullptr) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<GradientGuard>());
    set_gradient(parameter, parameter.grad());
  }
  guard_of(parameter)->set_clip(clip);
}

bool has_guarded_gradient(const at::Tensor& parameter) { return guard_of(parameter) != nullptr; }

void set_gradient(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (const GradientGuard* guard = guard_of(parameter)) {
    guard->put(parameter, gradient);
  } else {
    parameter.mutable_grad() = gradient;
  }
}

at::Tensor gradient_of(const at::Tensor& parameter) {
  const GradientGuard* guard = guard_of(parameter);
  return guard == nullptr ? parameter.grad() : guard->unguarded(parameter.grad());
}

}  // namespace tw
