// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_parallel/sequence_model.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <c10/util/accumulate.h>

#include <tw/autograd/autograd_node.hpp>
#include <tw/autograd/generator.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/parallel_in_time/states.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "iterated_network.hpp"

namespace tw::layer_parallel {
namespace {

// Tensors that are the same on all ranks of `comm`. Their gradients are broadcast from `root`, because different processors round differently and
// parameters would drift apart.
std::vector<at::Tensor> alike_on_all_ranks(const Communicator& comm, const std::vector<at::Tensor>& tensors, Rank root) {
  const auto forward = [&] {
    std::vector<at::Tensor> values;
    for (const at::Tensor& tensor : tensors) values.push_back(tensor.detach());
    return values;
  };
  const auto backward = [&comm, root](const std::vector<at::Tensor>& cotangents) {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& cotangent : cotangents) gradients.push_back(cotangent.clone(at::MemoryFormat::Contiguous));
    broadcast(comm, gradients, root);
    return gradients;
  };
  return make_node(tensors, {forward, backward});
}

// Inputs that all ranks have. Each rank uses only its own steps; the gradient is summed over all ranks.
at::Tensor with_whole_gradient(const Communicator& comm, const at::Tensor& inputs) {
  if (!at::GradMode::is_enabled() || !inputs.requires_grad() || comm.size() == 1) return inputs;
  const auto backward = [&comm](const std::vector<at::Tensor>& cotangents) {
    std::vector<at::Tensor> gradients{cotangents[0].clone(at::MemoryFormat::Contiguous)};
    allreduce(comm, gradients[0], ReduceOp::sum);
    return gradients;
  };
  return make_node({inputs}, {[&] { return std::vector<at::Tensor>{inputs.detach().clone()}; }, backward}).front();
}

}  // namespace

SequenceModel::SequenceModel(const Communicator& comm, const RecurrentOptions& options, std::vector<int64_t> outputs)
    : recurrent_(register_module("recurrent", std::make_shared<Recurrent>(comm, options))), outputs_(std::move(outputs)) {
  GeneratorGuard generator;
  generator.seed(options.seed, 1);
  linear_ = register_module("linear", torch::nn::Linear((options.bidirectional ? 2 : 1) * options.hidden_size, c10::multiply_integers(outputs_)));
}

SequenceModel::~SequenceModel() = default;

at::Tensor SequenceModel::forward(const at::Tensor& inputs) {
  const RecurrentOptions& options = recurrent_->options();
  const Communicator& comm = recurrent_->comm();
  const int64_t n = inputs.defined() && inputs.dim() > 0 ? inputs.size(0) : 0;
  const int64_t numbers = n > 0 ? inputs.numel() / n : 0;
  const bool wants_gradient = inputs.defined() && inputs.requires_grad() && at::GradMode::is_enabled();
  expect_same_on_all_ranks(comm, "the inputs of a SequenceModel", {describe({inputs}) + (wants_gradient ? ", requires a gradient" : "")});
  TW_EXPECTS(numbers > 0 && numbers % options.input_size == 0, "inputs are ", describe({inputs}),
             ": each sequence must have a multiple of input_size, ", options.input_size, " numbers");
  const int64_t steps = numbers / options.input_size;
  const auto [begin, end] = recurrent_->block(steps);
  const at::Tensor block =
      with_whole_gradient(comm, inputs).reshape({n, steps, options.input_size}).narrow(1, begin, end - begin).transpose(0, 1).contiguous();
  const at::Tensor hidden = recurrent_->forward(block, steps).hidden;
  const int64_t directions = options.bidirectional ? 2 : 1;
  const at::Tensor last = hidden.narrow(0, hidden.size(0) - directions, directions).transpose(0, 1).flatten(1);
  const auto linear = alike_on_all_ranks(comm, {linear_->weight, linear_->bias}, Rank(comm.size() - 1));
  std::vector<int64_t> shape{n};
  shape.insert(shape.end(), outputs_.begin(), outputs_.end());
  return at::linear(last, linear[0], linear[1]).view(shape);
}

void SequenceModel::report_phases(OnPhase on_phase) { observe(without_levels(std::move(on_phase))); }

}  // namespace tw::layer_parallel
