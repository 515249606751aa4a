// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_training/splinet.hpp>

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <tw/autograd/autocast.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/full_tensors.hpp>
#include <tw/mpi/revoke_on_exception.hpp>

#include "layer_transfer.hpp"
#include "spline_basis.hpp"

namespace tw::layer_training {

using layer_parallel::LayerParallel;

namespace {

/// B_j(t_k) for layers `begin` to `end` of `layers`, [end - begin, control points], float64.
at::Tensor basis_of(const SpliNetOptions& options, int64_t begin, int64_t end, int64_t layers) {
  const at::Tensor basis = at::zeros({end - begin, options.control_points}, at::kDouble);
  for (int64_t k = begin; k < end; ++k) {
    const double middle = (static_cast<double>(k) + 0.5) / static_cast<double>(layers);
    const SplineBasis at_middle = spline_basis(options.control_points, options.degree, middle);
    basis[k - begin].narrow(0, at_middle.first, options.degree + 1).copy_(at::tensor(at_middle.values, at::kDouble));
  }
  return basis;
}

/// [n, ...] as a matrix with n rows, sharing memory.
at::Tensor as_matrix(const at::Tensor& tensor) { return tensor.view({tensor.size(0), tensor.numel() / tensor.size(0)}); }

}  // namespace

SpliNet::SpliNet(std::shared_ptr<LayerParallel> net, const SpliNetOptions& options) : ModelDecorator(net), net_(std::move(net)), options_(options) {
  TW_EXPECTS(net_ != nullptr, "the network must not be null");
  const Communicator& comm = net_->comm();
  expect_same_on_all_ranks(comm, "the options of a SpliNet", value_lines(options_));
  options_.validate();
  std::vector<OptimizedTensor> mine = net_->optimized_tensors();
  std::erase_if(mine, [&](const OptimizedTensor& p) { return !p.tensor.requires_grad() || !is_of_layers(*net_, p.slices.at(0).name); });
  std::vector<NamedShard> shards;
  for (const OptimizedTensor& p : mine) shards.push_back(p.slices[0]);
  for_each_full_tensor(comm, shards, [&](const std::string& name, const at::Tensor& whole) {
    const int64_t layers = whole.size(0);
    TW_EXPECTS(options_.control_points <= layers, "control_points must be at most ", layers, ", the number of layers of block ",
               name.substr(0, name.find('.')), ", got ", options_.control_points);
    Curve& curve = curves_.emplace_back();
    curve.name = name;
    // The layer in the middle of each control point's share.
    const at::Tensor middles = at::arange(options_.control_points, at::kLong).mul(2).add(1).mul(layers).floor_divide(2 * options_.control_points);
    curve.controls = whole.index_select(0, middles).to(net_->tensors().device()).set_requires_grad(true);
    const auto found = std::find_if(mine.begin(), mine.end(), [&](const OptimizedTensor& p) { return p.slices[0].name == name; });
    if (found == mine.end()) return;
    const RowPart part = part_of(found->slices[0]);
    curve.stack = found->tensor;
    curve.basis = basis_of(options_, part.begin, part.end, layers).to(curve.stack.options().requires_grad(false));
  });
  fill_layers();
}

const SpliNet::Curve* SpliNet::curve_of(const std::string& name) const {
  const auto found = std::find_if(curves_.begin(), curves_.end(), [&](const Curve& curve) { return curve.name == name; });
  return found == curves_.end() ? nullptr : &*found;
}

void SpliNet::fill_layers() const {
  const AutocastScope plain(AutocastState::here().off());  // layers are parameters, which stay in full precision
  const c10::AutoGradMode no_gradients(false);
  for (const Curve& curve : curves_) {
    if (curve.stack.defined()) as_matrix(curve.stack.detach()).copy_(curve.basis.matmul(as_matrix(curve.controls)));
  }
}

ModelTensors SpliNet::tensors() const {
  ModelTensors tensors = net_->tensors();
  std::erase_if(tensors.parameters, [&](const NamedTensor& p) { return curve_of(p.name) != nullptr; });
  for (const Curve& curve : curves_) tensors.parameters.push_back({curve.name + ".control_points", curve.controls});
  return tensors;
}

std::vector<NamedShard> SpliNet::shards() const {
  std::vector<NamedShard> shards = net_->shards();
  std::erase_if(shards, [&](const NamedShard& shard) { return curve_of(shard.name) != nullptr; });
  for (const Curve& curve : curves_) shards.push_back(whole(curve.name + ".control_points", curve.controls.detach(), ShardKind::parameter));
  return shards;
}

std::vector<OptimizedTensor> SpliNet::optimized_tensors() const {
  std::vector<OptimizedTensor> tensors = net_->optimized_tensors();
  std::erase_if(tensors, [&](const OptimizedTensor& p) { return curve_of(p.slices.at(0).name) != nullptr; });
  for (const Curve& curve : curves_) {
    tensors.push_back({curve.controls, {whole(curve.name + ".control_points", curve.controls.detach(), ShardKind::parameter)}});
  }
  return tensors;
}

std::vector<NamedShard> SpliNet::exported_shards() const {
  fill_layers();
  return net_->exported_shards();
}

at::Tensor SpliNet::forward(const at::Tensor& inputs) {
  fill_layers();
  const c10::AutoGradMode no_gradients(false);
  return net_->forward(inputs);
}

void SpliNet::pass(const TrainingPass& pass) {
  fill_layers();
  for (const Curve& curve : curves_) {
    if (curve.stack.defined()) curve.stack.mutable_grad() = at::Tensor();
  }
  net_->pass(pass);
  const AutocastScope plain(AutocastState::here().off());
  revoke_on_exception(net_->comm(), [&] {
    const c10::AutoGradMode no_gradients(false);
    std::vector<at::Tensor> gradients;
    for (const Curve& curve : curves_) {
      const at::Tensor& gradient = gradients.emplace_back(at::zeros_like(curve.controls));
      if (!curve.stack.defined() || !curve.stack.grad().defined()) continue;
      as_matrix(gradient).copy_(curve.basis.t().matmul(as_matrix(curve.stack.grad().contiguous())));
      curve.stack.mutable_grad() = at::Tensor();
    }
    allreduce(net_->comm(), gradients, ReduceOp::sum);
    for (size_t i = 0; i < curves_.size(); ++i) {
      const at::Tensor& controls = curves_[i].controls;
      if (controls.grad().defined()) {
        controls.grad().add_(gradients[i]);
      } else {
        controls.mutable_grad() = gradients[i];
      }
    }
  });
}

void SpliNetOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(control_points > degree, "control_points must be more than degree ", degree, ", got ", control_points);
}

void visit(SpliNetOptions& options, OptionVisitor& visitor) {
  visitor.field("control_points", options.control_points, at_least(1, any_count), {.meaning = "control points of every ODE block"});
  visitor.field("degree", options.degree, at_least(0), {.meaning = "degree of the splines"});
}

}  // namespace tw::layer_training
