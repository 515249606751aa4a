// SPDX-License-Identifier: Apache-2.0
#include "non_finite.hpp"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/comm/objects.hpp>
#include <tw/data_parallel/idle_pass.hpp>
#include <tw/tensor/tensor_snapshot.hpp>

namespace tw::train {
namespace {

std::string find_here(const Model& model, const Objective& objective, const Batch& batch, const std::optional<Batch>& instead) {
  if (batch.size() == 0) {
    const IdlePass idle({});
    if (instead) model.evaluate(instead->inputs);
    return "";
  }
  std::vector<const NamedTensor*> trained;
  std::vector<at::Tensor> inputs;
  for (const NamedTensor& parameter : model.parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    trained.push_back(&parameter);
    inputs.push_back(parameter.tensor);
  }
  const at::Tensor outputs = model.evaluate(batch.inputs);
  if (!model.trained->needs_samples() || !outputs.defined()) return "";
  if (objective.weight && objective.weight(batch.targets) == 0) return "";  // its mean is not a number
  const at::Tensor loss = objective.loss(outputs, batch.targets);
  const double value = loss.item<double>();
  std::string found = std::isfinite(value) ? "" : concat("the loss is ", value);
  if (instead || model.is_in_parts() || !model.trained->makes_one_backward_pass()) return found;  // no separate backward pass to inspect
  const auto gradients = torch::autograd::grad({loss}, inputs, {}, /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (are_finite({gradients[i]})) continue;
    return concat(found, found.empty() ? "" : ", ", "the gradient of ", trained[i]->name, " is not finite");
  }
  return found;
}

}  // namespace

bool are_finite(const std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> largest;
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined()) continue;
    const at::Tensor values = gradient.is_sparse() ? gradient._values() : gradient;
    if (values.numel() > 0) largest.push_back(at::linalg_vector_norm(values, INFINITY).to(at::kDouble));
  }
  return largest.empty() || at::isfinite(at::stack(largest)).all().item<bool>();
}

void NonFiniteDiagnosis::note(const Batch& batch, uint64_t seed, bool finite) {
  if (certain_) return;
  batch_ = batch;
  seed_ = seed;
  certain_ = !finite;
}

std::string NonFiniteDiagnosis::examine(const Communicator& comm, const Model& model, const Objective& objective,
                                        const std::optional<Batch>& instead) {
  const RestoreOnExit kept(model.buffers);
  torch::manual_seed(seed_);
  const std::vector<std::string> found = allgather_strings(comm, find_here(model, objective, batch_, instead));
  *this = NonFiniteDiagnosis();
  std::string text;
  for (size_t rank = 0; rank < found.size(); ++rank) {
    if (!found[rank].empty()) text += concat(text.empty() ? "" : "; ", "rank ", rank, ": ", found[rank]);
  }
  return text.empty() ? "gradients overflow" : text;
}

}  // namespace tw::train
