// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor/tensor_snapshot.hpp>

#include <utility>

namespace tw {
namespace {

std::vector<at::Tensor> without_names(const std::vector<NamedTensor>& tensors) {
  std::vector<at::Tensor> all;
  for (const NamedTensor& each : tensors) all.push_back(each.tensor);
  return all;
}

}  // namespace

TensorSnapshot::TensorSnapshot(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
  for (const at::Tensor& each : tensors_) copies_.push_back(each.variable_data().clone());
}

TensorSnapshot::TensorSnapshot(const std::vector<NamedTensor>& tensors) : TensorSnapshot(without_names(tensors)) {}

void TensorSnapshot::restore() const {
  for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].variable_data().copy_(copies_[i]);
}

RestoreOnExit::RestoreOnExit(std::vector<at::Tensor> tensors) : copies_(std::move(tensors)) {}

RestoreOnExit::RestoreOnExit(const std::vector<NamedTensor>& tensors) : copies_(tensors) {}

RestoreOnExit::~RestoreOnExit() { copies_.restore(); }

}  // namespace tw
