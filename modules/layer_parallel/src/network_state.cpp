// SPDX-License-Identifier: Apache-2.0
// State of a LayerParallel: for checkpoints, for optimizers, and gathered into a serial network.
#include <c10/core/GradMode.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/full_tensors.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <tw/mpi/revoke_on_exception.hpp>

#include "network.hpp"

namespace tw::layer_parallel {
namespace {
constexpr const char* calls_suffix = ".training passes";

void apply_modes(const std::vector<LayerModes>& layers, const SerialNetwork& network) {
  for (const LayerModes& each : layers) {
    const Modules parts = with_parts(*network.layers(each.block).at(each.layer).module);
    TW_ASSERT(parts.size() == each.is_training.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const bool trains = each.is_training[i] != 0;
      if (parts[i]->is_training() != trains) parts[i]->train(trains);
    }
  }
}

}  // namespace

std::vector<LayerModes> LayerParallel::Impl::modes_of_layers() const {
  std::vector<LayerModes> layers;
  const auto add = [&](const std::string& block, int64_t layer, const Layer& of) {
    LayerModes& modes = layers.emplace_back(LayerModes{std::stoul(block), static_cast<size_t>(layer), {}});
    for (const auto& each : with_parts(*of.module)) modes.is_training.push_back(each->is_training() ? 1 : 0);
  };
  for (const Part& part : parts_) {
    if (part.layer) add(part.name, 0, *part.layer);
    if (!part.ode) continue;
    const LayerStack& stack = part.ode->stack();
    for (int64_t k = stack.range().begin; k < stack.range().end; ++k) add(part.name, k, stack.layer(k));
  }
  return layers;
}

std::vector<NamedShard> LayerParallel::shards() const {
  std::vector<NamedShard> shards;
  for (const Impl::Part& part : impl_->parts_) {
    if (part.layer) {
      const std::map<std::string, SlicedParameter> slices = slices_by_name(*part.layer->module);
      const auto parameters = part.layer->module->named_parameters();
      const auto buffers = part.layer->module->named_buffers();
      const auto add = [&](const std::string& name, const at::Tensor& tensor, ShardKind kind) {
        NamedShard shard = whole(part.name + '.' + name, tensor.detach(), kind);
        const std::string serial = "0." + name;  // in a SerialNetwork, unless another tensor here has that name
        if (!parameters.contains(serial) && !buffers.contains(serial)) shard.aliases.push_back(part.name + '.' + serial);
        shard.on_reshard = OnReshard::shard;  // this rank has the whole tensor
        if (const auto slice = slices.find(name); slice != slices.end()) {
          shard.global_shape = slice->second.global_shape;
          shard.offsets = slice->second.offsets;
        }
        shards.push_back(std::move(shard));
      };
      for (const auto& p : parameters) add(p.key(), p.value(), ShardKind::parameter);
      for (const auto& b : buffers) add(b.key(), b.value(), ShardKind::buffer);
    }
    if (!part.ode) continue;
    const LayerStack& stack = part.ode->stack();
    const auto add = [&](const StackedTensor& tensor, ShardKind kind) {
      std::vector<int64_t> shape = tensor.stack.sizes().vec();
      std::vector<int64_t> offsets(shape.size(), 0);
      if (tensor.of_split) {
        std::ranges::copy(tensor.of_split->global_shape, shape.begin() + 1);
        std::ranges::copy(tensor.of_split->offsets, offsets.begin() + 1);
      }
      shape[0] = part.ode->layers();
      offsets[0] = stack.range().begin;
      shards.push_back({part.name + '.' + tensor.name,
                        {},
                        std::move(shape),
                        tensor.stack.detach(),
                        std::move(offsets),
                        kind,
                        OnReshard::shard,
                        part.name + ".{}." + tensor.name});
    };
    for (const StackedTensor& p : stack.parameters()) add(p, ShardKind::parameter);
    for (const StackedTensor& b : stack.buffers()) add(b, ShardKind::buffer);
    if (const auto calls = part.ode->calls()) shards.push_back(whole(part.name + calls_suffix, *calls, ShardKind::buffer));
  }
  return shards;
}

std::vector<OptimizedTensor> LayerParallel::optimized_tensors() const {
  std::vector<OptimizedTensor> tensors;
  std::vector<NamedShard> all = shards();
  for (const auto& p : named_parameters()) {
    const auto shard = std::find_if(all.begin(), all.end(), [&](const NamedShard& s) { return s.name == p.key(); });
    TW_ASSERT(shard != all.end());
    tensors.push_back({p.value(), {*shard}});
  }
  return tensors;
}

std::shared_ptr<SerialNetwork> LayerParallel::serial_on_root() const {
  TW_EXPECTS(!impl_->is_part(), "this network has only some of the blocks of the whole one (BlockRange), so it cannot be assembled");
  return revoke_on_exception(impl_->comm_, [&] {
    std::shared_ptr<SerialNetwork> serial;
    if (impl_->comm_.rank() == 0) serial = std::make_shared<SerialNetwork>(impl_->blocks_, impl_->options_);
    for_each_full_tensor(impl_->comm_, shards(), [&](const std::string& name, const at::Tensor& values) {
      if (!serial) return;
      if (name.ends_with(calls_suffix)) return serial->set_calls(values.item<int64_t>());
      const size_t dot = name.find('.');
      const auto index = static_cast<size_t>(std::stoul(name.substr(0, dot)));
      const std::string in_layer = name.substr(dot + 1);
      const std::vector<Layer>& layers = serial->layers(index);
      for (size_t k = 0; k < layers.size(); ++k) {
        const auto parameters = layers[k].module->named_parameters();
        const auto buffers = layers[k].module->named_buffers();
        const at::Tensor* tensor = parameters.find(in_layer) != nullptr ? parameters.find(in_layer) : buffers.find(in_layer);
        TW_ASSERT(tensor != nullptr);
        const at::Tensor mine = impl_->blocks_[index].is_ode() ? values.select(0, static_cast<int64_t>(k)) : values;
        tensor->set_data(mine.to(tensor->device(), mine.scalar_type(), /*non_blocking=*/false, /*copy=*/true));  // where factories put the layer
      }
    });
    if (serial) serial->set_replica(impl_->replica_);
    const auto modes = allgather_objects(impl_->comm_, impl_->modes_of_layers());
    if (serial) {
      serial->train(impl_->training_);
      for (const std::vector<LayerModes>& each : modes) apply_modes(each, *serial);
    }
    return serial;
  });
}

ModelTensors LayerParallel::tensors() const { return model_tensors(*this); }

double LayerParallel::add_smoothness_penalty(double gamma) {
  return revoke_on_exception(impl_->comm_, [&] {
    const c10::AutoGradMode no_gradients(false);
    const Communicator& comm = impl_->comm_;
    const at::Tensor penalty = at::zeros({}, at::kDouble);
    for (Impl::Part& part : impl_->parts_) {
      if (!part.ode) continue;
      const double factor = gamma / part.ode->step_size();
      LayerStack& stack = part.ode->stack();
      if (stack.range().size() == 0) continue;
      const std::optional<Rank> left = part.ode->rank_of_layer(stack.range().begin - 1);
      const std::optional<Rank> right = part.ode->rank_of_layer(stack.range().end);
      for (const StackedTensor& p : stack.parameters()) {
        // Neighbours exchange values whether or not they train them.
        const at::Tensor values = p.stack.detach();
        if (p.stack.requires_grad() && !p.stack.grad().defined()) set_gradient(p.stack, at::zeros_like(p.stack));
        const at::Tensor gradient = p.stack.requires_grad() ? p.stack.grad() : at::zeros_like(values);
        const int64_t n = values.size(0);
        const at::Tensor inner = values.narrow(0, 1, n - 1).sub(values.narrow(0, 0, n - 1));
        gradient.narrow(0, 1, n - 1).add_(inner, factor);
        gradient.narrow(0, 0, n - 1).sub_(inner, factor);
        penalty.add_(inner.to(at::kDouble).square().sum(), factor / 2);
        // Each border counts once, on the rank to its right.
        Work sends[2];
        const at::Tensor first = values.select(0, 0).clone();
        const at::Tensor last = values.select(0, n - 1).clone();
        if (left) sends[0] = isend(comm, first, *left);
        if (right) sends[1] = isend(comm, last, *right);
        const at::Tensor neighbour = at::empty_like(first);
        if (left) {
          recv(comm, neighbour, *left);
          const at::Tensor jump = first.sub(neighbour);
          gradient.select(0, 0).add_(jump, factor);
          penalty.add_(jump.to(at::kDouble).square().sum(), factor / 2);
        }
        if (right) {
          recv(comm, neighbour, *right);
          gradient.select(0, n - 1).sub_(neighbour.sub(last), factor);
        }
        wait_all(sends);
      }
    }
    allreduce(comm, penalty, ReduceOp::sum);
    return penalty.item<double>();
  });
}

}  // namespace tw::layer_parallel
