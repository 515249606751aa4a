// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor/tensor_copies.hpp>

#include <utility>

namespace tw {
namespace {

std::vector<at::Tensor> without_names(const std::vector<NamedTensor>& tensors) {
  std::vector<at::Tensor> all;
  for (const NamedTensor& each : tensors) all.push_back(each.tensor);
  return all;
}

}  // namespace

TensorCopies::TensorCopies(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
  for (const at::Tensor& each : tensors_) copies_.push_back(each.variable_data().clone());
}

TensorCopies::TensorCopies(const std::vector<NamedTensor>& tensors) : TensorCopies(without_names(tensors)) {}

void TensorCopies::put_back() const {
  for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].variable_data().copy_(copies_[i]);
}

KeptTensors::KeptTensors(std::vector<at::Tensor> tensors) : copies_(std::move(tensors)) {}

KeptTensors::KeptTensors(const std::vector<NamedTensor>& tensors) : copies_(tensors) {}

KeptTensors::~KeptTensors() { copies_.put_back(); }

}  // namespace tw
