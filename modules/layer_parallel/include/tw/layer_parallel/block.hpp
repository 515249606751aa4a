// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <tw/parallel_in_time/propagator.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace torch::nn {
class SequentialImpl;
}

namespace tw::layer_parallel {

/// A layer as a function of a state, of the extras that all layers share, and of the step size.
struct Layer {
  std::shared_ptr<torch::nn::Module> module;
  std::function<State(const State& state, const State& extras, double dt)> forward;
  bool is_step = false;  ///< forward returns the next state itself; otherwise du/dt, or, of plain layers, the output
};

/// How a layer that returns du/dt makes a step.
enum class Integrator {
  euler,  ///< u + dt F(u)
  rk2,    ///< u + dt F(u + dt/2 F(u)), the midpoint rule
  rk4,    ///< the classical one
};

/// Whether the layers of a rank that do not depend on each other run as one tensor operation. What their forward does is then captured, compared with
/// the layers one by one, and looked at again in each pass: layers that read numbers out of tensors, or do not all do the same, are made one by one.
enum class Batching {
  automatic,  ///< where the results equal those of the layers one by one, and they hold no convolutions, which are slower batched
  /// The same with convolutions, and each layer is examined once alone: members that are no parameters must not change, which is not checked.
  always,
  never,
};

struct BlockOptions {
  Integrator integrator = Integrator::euler;
  Batching batching = Batching::automatic;
  /// The layers draw random numbers in training, as dropout does: those of a layer then depend on seed, replica, layer and training pass alone, and
  /// are the same in every sweep. A layer of an ODE block that draws any without this is an error of the first pass. Plain layers need no such mark.
  bool random = false;
};

/// Layers one after the other.
struct Block {
  std::function<Layer(int64_t index)> make;
  int64_t count = 1;  ///< 1: a plain layer, which may change the shape. More: the steps of an ODE, which keep it
  BlockOptions options = {};

  bool is_ode() const noexcept { return count > 1; }
};

namespace detail {

template <class T>
std::shared_ptr<T> pointer_of(std::shared_ptr<T> module) {
  return module;
}
template <class Holder>
  requires requires(const Holder& holder) { holder.ptr(); }
auto pointer_of(const Holder& holder) {
  return holder.ptr();
}

inline State state_of(at::Tensor tensor) { return {std::move(tensor)}; }
inline State state_of(State state) { return state; }

/// Becomes a number with a fraction, and nothing else, such as a flag.
struct StepSize {
  template <std::floating_point T>
  operator T() const;  // NOLINT(google-explicit-constructor): stands for an argument in requirements only
};

/// The forms of forward() that a layer may have.
template <class M>
Layer layer_of(const std::shared_ptr<M>& module) {
  M& m = *module;
  using Tensor = const at::Tensor&;
  using Tensors = const State&;
  constexpr bool takes_anything = std::derived_from<M, torch::nn::SequentialImpl>;
  if constexpr (!takes_anything && requires(Tensor u, Tensors extras, StepSize dt) { m.forward(u, extras, dt); }) {
    return {module, [&m](Tensors u, Tensors extras, double dt) { return state_of(m.forward(u.at(0), extras, dt)); }, true};
  } else if constexpr (!takes_anything && requires(Tensors u, Tensors extras, StepSize dt) { m.forward(u, extras, dt); }) {
    return {module, [&m](Tensors u, Tensors extras, double dt) { return state_of(m.forward(u, extras, dt)); }, true};
  } else if constexpr (!takes_anything && requires(Tensor u, StepSize dt) { m.forward(u, dt); }) {
    return {module, [&m](Tensors u, Tensors, double dt) { return state_of(m.forward(u.at(0), dt)); }, true};
  } else if constexpr (!takes_anything && requires(Tensors u, StepSize dt) { m.forward(u, dt); }) {
    return {module, [&m](Tensors u, Tensors, double dt) { return state_of(m.forward(u, dt)); }, true};
  } else if constexpr (requires(Tensor u) { m.forward(u); }) {
    return {module, [&m](Tensors u, Tensors, double) { return state_of(m.forward(u.at(0))); }, false};
  } else if constexpr (requires(Tensors u) { m.forward(u); }) {
    return {module, [&m](Tensors u, Tensors, double) { return state_of(m.forward(u)); }, false};
  } else if constexpr (requires(Tensor u, Tensors extras) { m.forward(u, extras); }) {
    return {module, [&m](Tensors u, Tensors extras, double) { return state_of(m.forward(u.at(0), extras)); }, false};
  } else {
    return {module, [&m](Tensors u, Tensors extras, double) { return state_of(m.forward(u, extras)); }, false};
  }
}

}  // namespace detail

/// `count` layers that `factory` makes.
/// @param factory called without argument or with the layer's index in the block; returns a module holder, such as torch::nn::Linear, or a shared
/// pointer to a module. Its forward takes and returns a tensor, or a State. In an ODE block it returns du/dt, from (state) or (state, extras), or the
/// next state, from (state, double dt) or (state, extras, double dt).
template <class Factory>
Block block(Factory factory, int64_t count, const BlockOptions& options = {}) {
  return {[factory = std::move(factory)](int64_t index) mutable {
            if constexpr (std::invocable<Factory&, int64_t>) {
              return detail::layer_of(detail::pointer_of(factory(index)));
            } else {
              return detail::layer_of(detail::pointer_of(factory()));
            }
          },
          count, options};
}

/// One step of `layer` from `state`. Stacks of states will do, if the layer takes them.
State step(const Layer& layer, Integrator integrator, const State& state, const State& extras, double dt);

}  // namespace tw::layer_parallel
