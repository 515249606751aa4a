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

/// A layer as a function of a state, the extras that all layers share, and the step size.
struct Layer {
  std::shared_ptr<torch::nn::Module> module;
  std::function<State(const State& state, const State& extras, double dt)> forward;
  bool is_step = false;  ///< true: forward returns the next state u; false: it returns du/dt, or in a plain layer the output
};

/// The integration method for layers that return du/dt.
enum class Integrator {
  euler,  ///< u + dt * F(u)
  rk2,    ///< u + dt * F(u + dt/2 * F(u)), the midpoint rule
  rk4,    ///< the classical Runge-Kutta method
};

/// Whether independent layers of a rank run as one batched tensor operation. For this, the operators of one layer's step are captured, the results of
/// the batch are compared with those of layers that run one by one, and each layer is checked in each pass. Layers always run one by one if they read
/// numbers from tensors, do not all run the same operators, or have buffers.
enum class Batching {
  automatic,  ///< batch if this does not change results and there are no convolutions, which are slower in a batch
  /// Like automatic, but also batch convolutions, and check each layer only once. Afterwards, data members other than parameters must not change,
  /// which is not checked.
  always,
  never,  ///< run layers one by one
};

struct BlockOptions {
  Integrator integrator = Integrator::euler;
  Batching batching = Batching::automatic;
  /// Whether the layers draw random numbers in training, as dropout does. A layer's numbers then depend only on seed, replica, block, layer and
  /// training pass, and are the same in every sweep of a pass. If a layer of an ODE block draws random numbers without this option, the pass throws.
  /// Plain layers do not need this option.
  bool random = false;
};

/// A sequence of layers.
struct Block {
  std::function<Layer(int64_t index)> make;
  int64_t count = 1;  ///< 1: a plain layer, which may change the state's shape. More: an ODE block, whose layers are steps and keep the shape
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

/// Converts to floating-point types only, not to bool or integers.
struct StepSize {
  template <std::floating_point T>
  operator T() const;  // NOLINT(google-explicit-constructor): stands for an argument in requirements only
};

/// Wraps a module with any of the supported signatures of forward().
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

/// A block of `count` layers made by `factory`.
/// @param factory called without arguments or with the layer's index in the block; returns a module holder, such as torch::nn::Linear, or a shared
/// pointer to a module. The module's forward() takes and returns a tensor or a State. In an ODE block, forward(state) and forward(state, extras)
/// return du/dt; forward(state, double dt) and forward(state, extras, double dt) return the next state.
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

/// The state after one step of `layer` from `state`, which may be stacked if the layer supports it. @param dt the step size
State step(const Layer& layer, Integrator integrator, const State& state, const State& extras, double dt);

}  // namespace tw::layer_parallel
