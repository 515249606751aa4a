// SPDX-License-Identifier: Apache-2.0
// The beginning of a pass of LayerParallel: agreement between ranks, the input, and plain layers.
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>
#include <tw/autograd/autocast.hpp>
#include <tw/autograd/autograd_node.hpp>
#include <tw/autograd/generator.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/hash.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/parallel_in_time/states.hpp>
#include <utility>

#include "network.hpp"
#include "random_layer_seed.hpp"

namespace tw::layer_parallel {
namespace {

bool wants_gradient(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

/// 0 if no gradient of the input is wanted; otherwise a hash of its description, equal for equal inputs.
uint64_t wanted_gradients(const State& input) {
  if (!c10::GradMode::is_enabled() || std::ranges::none_of(input, wants_gradient)) return 0;
  std::string text;
  for (const at::Tensor& tensor : input) text += concat(wants_gradient(tensor), ' ', describe({tensor}), '\n');
  return std::max<uint64_t>(content_hash(text), 1);
}

}  // namespace

std::vector<std::string> LayerParallel::Impl::checked(const State& input, const State& extras) const {
  const bool recorded = c10::GradMode::is_enabled();
  for (const at::Tensor& tensor : extras) {
    TW_EXPECTS(!(recorded && tensor.requires_grad()),
               "no gradient reaches extras, so they must not require one: detach them, or make them part of the state");
  }
  const bool is_whole =
      comm_.rank() != 0 || (!input.empty() && std::ranges::all_of(input, [](const at::Tensor& tensor) { return tensor.defined(); }));
  TW_EXPECTS(is_whole, "the input must consist of defined tensors, got ", describe(input));
  std::string mode = training_ ? "in training mode" : "in evaluation mode";
  for (const Part& part : parts_) {
    if (!part.ode || part.ode->stack().is_training() == training_) continue;
    mode += concat(", but block ", part.name, training_ ? " in evaluation mode" : " in training mode");
  }
  return {concat(recorded ? "records" : "does not record", " for a backward pass"), mode, concat("replica ", replica_),
          AutocastState::here().is_on() ? "under autocast" : "without autocast", concat("extras: ", describe(extras))};
}

void LayerParallel::Impl::release_backward_passes() {
  if (std::exchange(blocks_to_come_, 0) > 0 && !comms_.onward().revoked()) comms_.onward().revoke("a layer threw in a backward pass");
}

bool LayerParallel::Impl::begin_pass(const State& input, const State& extras) {
  release_backward_passes();
  int64_t call = calls();
  const std::vector<uint64_t> wanted =
      comms_.begin_pass("a pass of a LayerParallel", wanted_gradients(input), [&] { return checked(input, extras); }, call);
  set_calls(call);
  return wanted[0] != 0 && std::ranges::count(wanted, wanted[0]) == std::ssize(wanted);
}

// A backward pass for the gradient of the input alone runs through all parts on its path, on every rank.
State LayerParallel::Impl::enter(const State& input, bool gradient_for_all, at::Tensor& anchor) {
  const bool mine = comm_.rank() == 0;
  if (mine && (!gradient_for_all || comm_.size() == 1)) return input;
  std::vector<at::Tensor> wanted;
  if (c10::GradMode::is_enabled()) std::ranges::copy_if(input, std::back_inserter(wanted), wants_gradient);
  if (wanted.empty()) return {anchor_};
  const auto sent = [this](const std::vector<at::Tensor>& gradients) {
    return revoke_on_exception(comms_.onward(), [&] {
      broadcast(comms_.onward(), gradients, Rank(0));
      return gradients;
    });
  };
  if (mine) {
    // This node runs after the ODE blocks even if a layer before them returns no gradient: other ranks wait for it.
    const auto forward = [&] {
      State outputs = layer_parallel::clone(detached(wanted));
      outputs.push_back(at::zeros_like(anchor_));
      return outputs;
    };
    const auto backward = [sent](const std::vector<at::Tensor>& cotangents) {
      return sent(layer_parallel::clone(State(cotangents.begin(), cotangents.end() - 1)));
    };
    const std::vector<at::Tensor> passed_on = make_node(wanted, {forward, backward});
    anchor = passed_on.back();
    State state = input;
    size_t next = 0;
    for (at::Tensor& tensor : state) {
      if (wants_gradient(tensor)) tensor = passed_on[next++];
    }
    return state;
  }
  const auto backward = [sent, gradient_for_all, like = detached(wanted)](const std::vector<at::Tensor>& /*cotangents*/) {
    State gradients = each(like, [](const at::Tensor& t) { return at::zeros_like(t, at::TensorOptions(), at::MemoryFormat::Contiguous); });
    if (gradient_for_all) gradients = sent(gradients);
    gradients.insert(gradients.begin(), at::Tensor());  // gradient of the anchor
    return gradients;
  };
  std::vector<at::Tensor> inputs{anchor_};
  inputs.insert(inputs.end(), wanted.begin(), wanted.end());
  return make_node(inputs, {[this] { return State{at::zeros_like(anchor_)}; }, backward});
}

// Plain layers have their own random stream, as layers of ODE blocks do. Otherwise their numbers would depend on what else the rank draws.
State LayerParallel::Impl::through_plain(const Part& part, const State& state, const State& extras, int64_t call) const {
  std::optional<GeneratorGuard> generator;
  if (training_) {
    generator.emplace();
    generator->seed(random_layer_seed(random_seed(options_.seed, replica_), part.block, static_cast<uint64_t>(call)), 0);
  }
  return part.layer->forward(state, extras, 0);
}

}  // namespace tw::layer_parallel
