// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <tw/base/contract.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/tensor/autograd_node.hpp>
#include <utility>
#include <vector>

namespace tw::pipeline {
namespace {

/// Takes the gradients of parameters away, and puts them back.
class WithoutGradients {
 public:
  explicit WithoutGradients(const std::vector<at::Tensor>& parameters) : parameters_(parameters) {
    for (const at::Tensor& each : parameters_) gradients_.push_back(std::exchange(each.mutable_grad(), at::Tensor()));
  }
  ~WithoutGradients() {
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients_[i];
  }
  WithoutGradients(const WithoutGradients&) = delete;
  WithoutGradients& operator=(const WithoutGradients&) = delete;

 private:
  const std::vector<at::Tensor>& parameters_;
  std::vector<at::Tensor> gradients_;
};

}  // namespace

at::Tensor Pipeline::loss(const at::Tensor& inputs, const at::Tensor& targets, const Loss& loss) {
  TW_EXPECTS(options().sharding == Sharding::none && !is_paused(), "loss() is not for sharded gradients, nor under no_sync()");
  std::vector<at::Tensor> trained;
  for (const at::Tensor& each : parameters()) {
    if (each.requires_grad()) trained.push_back(each);
  }
  std::vector<at::Tensor> used;
  std::vector<at::Tensor> gradients;
  at::Tensor value;
  {
    const WithoutGradients without(trained);
    value = at::tensor(run(inputs, targets, loss), at::kDouble);
    for (const at::Tensor& each : trained) {
      if (!each.grad().defined()) continue;
      used.push_back(each);
      const bool is_own = each.grad().storage().use_count() == 1;  // a reducer uses its memory again
      gradients.push_back(is_own ? each.grad() : each.grad().clone());
    }
  }
  if (used.empty()) {  // by no micro-batch, or all are frozen
    used.push_back(trained.empty() ? at::zeros({}).set_requires_grad(true) : trained.front());
    gradients.emplace_back();
  }
  const auto backward = [gradients](const std::vector<at::Tensor>& cotangents) {
    std::vector<at::Tensor> scaled;
    for (const at::Tensor& each : gradients) scaled.push_back(each.defined() ? each.mul(cotangents[0].item<double>()) : at::Tensor());
    return scaled;
  };
  return make_node(used, {.forward = [&] { return std::vector<at::Tensor>{value}; }, .backward = backward}).front();
}

}  // namespace tw::pipeline
