// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_parallel/block.hpp>

#include <ATen/ExpandUtils.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/parallel_in_time/states.hpp>

#include "named_layer.hpp"

namespace tw::layer_parallel {
namespace {

/// u + factor * slope
State moved(const State& u, const State& slope, double factor) {
  State result;
  for (size_t i = 0; i < u.size(); ++i) result.push_back(u[i].add(slope[i], factor));
  return result;
}

/// Whether the result of a layer has the shape of the next state, or of a slope, which may be broadcast to that shape.
bool fits(const State& result, const State& u, bool is_step) {
  return std::ranges::equal(result, u, [&](const at::Tensor& given, const at::Tensor& of) {
    return is_step ? given.sizes().equals(of.sizes()) : at::is_expandable_to(given.sizes(), of.sizes());
  });
}

}  // namespace

Layer named_layer(Layer layer, std::string name, bool of_ode) {
  name += concat(", a ", layer.module->name());
  const bool is_step = layer.is_step;
  layer.forward = [=, forward = std::move(layer.forward)](const State& u, const State& extras, double dt) {
    try {
      State result = forward(u, extras, dt);
      const bool is_defined = std::ranges::all_of(result, [](const at::Tensor& tensor) { return tensor.defined(); });
      TW_EXPECTS(is_defined, name, ", returned ", describe(result), " for ", describe(u));
      TW_EXPECTS(!of_ode || fits(result, u, is_step), name, ", returned ", describe(result), " for a state of ", describe(u),
                 ", but an ODE block must keep the shapes and dtypes of its state");
      return result;
    } catch (c10::Error& e) {
      e.add_context(concat("thrown in ", name, ", for ", describe(u)));
      throw;
    }
  };
  return layer;
}

State step(const Layer& layer, Integrator integrator, const State& u, const State& extras, double dt) {
  if (layer.is_step) return layer.forward(u, extras, dt);
  const auto f = [&](const State& at) { return layer.forward(at, extras, dt); };
  switch (integrator) {
    case Integrator::euler: return moved(u, f(u), dt);
    case Integrator::rk2: return moved(u, f(moved(u, f(u), dt / 2)), dt);
    case Integrator::rk4: {
      const State k1 = f(u);
      const State k2 = f(moved(u, k1, dt / 2));
      const State k3 = f(moved(u, k2, dt / 2));
      const State k4 = f(moved(u, k3, dt));
      return moved(moved(moved(moved(u, k1, dt / 6), k2, dt / 3), k3, dt / 3), k4, dt / 6);
    }
  }
  TW_EXPECTS(false, "unknown integrator");
}

}  // namespace tw::layer_parallel
