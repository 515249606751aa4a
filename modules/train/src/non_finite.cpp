// SPDX-License-Identifier: Apache-2.0
#include "non_finite.hpp"

#include <ATen/ops/linalg_vector_norm.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/comm/objects.hpp>

namespace tw::train {
namespace {

std::string find_here(const Model& model, const Objective& objective, const Batch& batch) {
  if (batch.size() == 0) return "";
  std::vector<const NamedTensor*> trained;
  std::vector<at::Tensor> inputs;
  for (const NamedTensor& parameter : model.parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    trained.push_back(&parameter);
    inputs.push_back(parameter.tensor);
  }
  const at::Tensor loss = objective.loss(model.forward(batch.inputs), batch.targets);
  const double value = loss.item<double>();
  std::string found = std::isfinite(value) ? "" : concat("the loss is ", value);
  const auto gradients = torch::autograd::grad({loss}, inputs, {}, /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined() || is_finite(gradients[i])) continue;
    return concat(found, found.empty() ? "" : ", ", "the gradient of ", trained[i]->name, " is not finite");
  }
  return found;
}

}  // namespace

bool is_finite(const at::Tensor& gradient) {
  const at::Tensor values = gradient.is_sparse() ? gradient._values() : gradient;
  return values.numel() == 0 || std::isfinite(at::linalg_vector_norm(values, INFINITY).item<double>());
}

std::string find_non_finite(const Communicator& comm, const Model& model, const Objective& objective, const Batch& batch) {
  const std::vector<std::string> found = allgather_strings(comm, find_here(model, objective, batch));
  std::string text;
  for (size_t rank = 0; rank < found.size(); ++rank) {
    if (!found[rank].empty()) text += concat(text.empty() ? "" : "; ", "rank ", rank, ": ", found[rank]);
  }
  return text.empty() ? "gradients overflow" : text;
}

}  // namespace tw::train
