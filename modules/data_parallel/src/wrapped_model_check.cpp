// SPDX-License-Identifier: Apache-2.0
#include "wrapped_model_check.hpp"

#include "module_tensors.hpp"

#include <torch/nn/module.h>

#include <algorithm>
#include <tw/base/contract.hpp>

namespace tw {
namespace {

std::string describe(const TensorSpec& spec, c10::Device device) {
  return concat(dtype_name(spec.dtype), ' ', shape_text(spec.shape), " on ", device.str());
}

bool is_same(const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); }

}  // namespace

WrappedModelCheck::WrappedModelCheck(std::string strategy, std::vector<NamedTensor> tensors)
    : strategy_(std::move(strategy)), tensors_(without_aliases(std::move(tensors))) {
  for (const NamedTensor& each : tensors_) facts_.push_back({each.spec(), each.tensor.device(), each.tensor.requires_grad()});
}

WrappedModelCheck::WrappedModelCheck(std::string strategy, const torch::nn::Module& module)
    : WrappedModelCheck(std::move(strategy), tensors_of(module)) {
  module_ = module.weak_from_this();
  parameters_ = module.parameters();
}

WrappedModelCheck::WrappedModelCheck(std::string strategy, const Communicator& comm, const torch::nn::Module& module)
    : WrappedModelCheck(std::move(strategy), tensors_of_replica(comm, module)) {
  module_ = module.weak_from_this();
  parameters_ = module.parameters();
}

void WrappedModelCheck::expect_unchanged() const {
  for (size_t i = 0; i < tensors_.size(); ++i) expect_unchanged(i);
  expect_same_parameters();
}

void WrappedModelCheck::expect_unchanged(size_t index) const {
  const at::Tensor& tensor = tensors_[index].tensor;
  if (!tensor.requires_grad() || !tensor.is_leaf()) return;  // a buffer may hold the result of a pass, with its graph
  const auto& [spec, device, trained] = facts_[index];
  TW_EXPECTS(trained, message(spec.name, "requires a gradient"));
  TW_EXPECTS(tensor.scalar_type() == spec.dtype && tensor.sizes() == spec.shape && tensor.device() == device,
             message(spec.name, concat("is ", describe(tensors_[index].spec(), tensor.device()), " and was ", describe(spec, device))));
}

void WrappedModelCheck::expect_same_parameters() const {
  const auto module = module_.lock();
  if (!module) return;
  const std::vector<at::Tensor> now = module->parameters();
  if (std::equal(now.begin(), now.end(), parameters_.begin(), parameters_.end(), is_same)) return;
  for (const auto& entry : module->named_parameters()) {
    const auto is_it = [&](const at::Tensor& parameter) { return parameter.is_same(entry.value()); };
    TW_EXPECTS(std::any_of(parameters_.begin(), parameters_.end(), is_it), message(entry.key(), "is a parameter of the module"));
  }
}

std::string WrappedModelCheck::message(const std::string& name, const std::string& what) const {
  return concat(name, ' ', what, ", unlike when ", strategy_, " was made: make it after all changes of the model, on all ranks");
}

}  // namespace tw
