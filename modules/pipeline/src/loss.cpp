// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/tensor.h>

#include <memory>
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
  std::vector<at::Tensor> trained;
  for (const at::Tensor& each : parameters()) {
    if (each.requires_grad()) trained.push_back(each);
  }
  const auto gradients = std::make_shared<std::vector<at::Tensor>>();
  const auto forward = [&, gradients] {
    const WithoutGradients without(trained);
    const double value = run(inputs, targets, loss);
    for (const at::Tensor& each : trained) gradients->push_back(each.grad());
    return std::vector<at::Tensor>{at::tensor(value, at::kDouble)};
  };
  const auto backward = [gradients](const std::vector<at::Tensor>& cotangents) {
    std::vector<at::Tensor> scaled;
    for (const at::Tensor& each : *gradients) scaled.push_back(each.defined() ? each.mul(cotangents[0].item<double>()) : at::Tensor());
    return scaled;
  };
  return make_node(trained, {.forward = forward, .backward = backward}).front();
}

}  // namespace tw::pipeline
