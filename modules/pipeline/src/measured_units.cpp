// SPDX-License-Identifier: Apache-2.0
#include "measured_units.hpp"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/numbers.hpp>
#include <tw/tensor/on_cpu.hpp>

#include "allocation_log.hpp"

namespace tw::pipeline {
namespace {

using graph::Graph;
using graph::Piece;
using graph::Value;
using Tensors = std::vector<at::Tensor>;

/// @param needs_gradient by value, for parameters and for values from other units
std::string form_of(const Graph& graph, const Piece& piece, const std::vector<bool>& needs_gradient) {
  Graph alone;
  std::map<int, int> index;
  std::string gradients;
  const auto renamed = [&](int value) {
    const auto [found, is_new] = index.emplace(value, static_cast<int>(alone.values.size()));
    if (is_new) {
      alone.values.push_back(graph.values[at(value)]);
      alone.values.back().name.clear();
      gradients += needs_gradient[at(value)] ? '+' : '-';
    }
    return found->second;
  };
  for (const int i : piece.nodes) {
    graph::Node node = graph.nodes[at(i)];
    for (graph::Argument& argument : node.arguments) {
      if (auto* ref = std::get_if<graph::Ref>(&argument); ref != nullptr && ref->value >= 0) ref->value = renamed(ref->value);
      if (auto* refs = std::get_if<std::vector<graph::Ref>>(&argument)) {
        for (graph::Ref& each : *refs) each.value = each.value < 0 ? -1 : renamed(each.value);
      }
    }
    for (int& output : node.outputs) output = output < 0 ? -1 : renamed(output);
    alone.nodes.push_back(std::move(node));
  }
  std::string form = to_text(alone);
  for (const Value& value : alone.values) {
    form += c10::toString(value.dtype);
    for (const graph::Size& size : value.sizes) form += concat(' ', size.fixed, '+', size.per_row);
  }
  return form + gradients;
}

/// Waits until a device has finished its queued work.
void finish(c10::Device device) {
  if (at::accelerator::isAccelerator(device.type())) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

/// Time of `run`, including the device work that it starts.
double time_of(c10::Device device, const std::function<void()>& run) {
  finish(device);
  const Stopwatch watch;
  run();
  finish(device);
  return watch.elapsed().count();
}

double median(std::vector<UnitCosts>& costs, double UnitCosts::* which) {
  const auto middle = costs.begin() + static_cast<int64_t>(costs.size() / 2);
  std::ranges::nth_element(costs, middle, {}, which);
  return (*middle).*which;
}

}  // namespace

std::vector<int> measuring_ranks(const std::vector<std::string>& forms, int ranks) {
  std::map<std::string, int> rank_of;
  std::vector<int> by_unit;
  for (const std::string& form : forms) {
    const auto next = static_cast<int>(rank_of.size()) % ranks;
    by_unit.push_back(rank_of.emplace(form, next).first->second);
  }
  return by_unit;
}

MeasuredUnits::MeasuredUnits(const Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind)
    : graph_(graph), pieces_(pieces_of(graph, units_of(graph))) {
  std::vector<bool> needs_gradient(graph.values.size(), false);
  for (const Piece& piece : pieces_) {
    interpreters_.emplace_back(graph, piece.nodes, piece.inputs, piece.outputs, bind);
    Tensors& trained = parameters_.emplace_back();
    for (const int tensor : piece.tensors) {
      const Value& value = graph.values[at(tensor)];
      if (value.kind != Value::Kind::parameter || !bind(value.name).requires_grad()) continue;
      trained.push_back(bind(value.name));
      needs_gradient[at(tensor)] = true;
    }
    kinds_.forms.push_back(form_of(graph, piece, needs_gradient));
    kinds_.has_halves.push_back(interpreters_.back().has_products() && !trained.empty() ? 1 : 0);
    const bool goes_back = !trained.empty() || std::ranges::any_of(piece.inputs, [&](int input) -> bool { return needs_gradient[at(input)]; });
    for (const int output : piece.outputs) needs_gradient[at(output)] = goes_back && c10::isFloatingType(graph.values[at(output)].dtype);
  }
}

std::vector<double> MeasuredUnits::saved_bytes(const Tensors& inputs) const {
  AllocationLog log(pieces_.size(), inputs[0].device().type());
  std::vector<int> last(graph_.values.size(), -1);
  for (size_t u = 0; u < pieces_.size(); ++u) {
    for (const int input : pieces_[u].inputs) last[at(input)] = static_cast<int>(u);
  }
  for (const int output : graph_.outputs) last[at(output)] = -1;
  Tensors values = begin(inputs);
  for (size_t u = 0; u < pieces_.size(); ++u) {
    log.now(u);
    run(u, values, inputs[0].size(0));
    for (const int input : pieces_[u].inputs) {
      if (last[at(input)] == static_cast<int>(u)) values[at(input)] = at::Tensor();
    }
  }
  return log.bytes();
}

std::vector<UnitCosts> MeasuredUnits::costs(const Tensors& inputs, const std::vector<bool>& wanted, int repetitions) const {
  const int64_t rows = inputs[0].size(0);
  std::map<std::string, std::vector<size_t>> units_of_form;
  for (size_t u = 0; u < forms().size(); ++u) units_of_form[forms()[u]].push_back(u);
  std::map<std::string, std::vector<UnitCosts>> found;
  for (int r = 0; r < repetitions; ++r) {
    Tensors values = begin(inputs);
    for (size_t u = 0; u < pieces_.size(); ++u) {
      const std::vector<size_t>& alike = units_of_form[forms()[u]];
      if (wanted[u] && alike[static_cast<size_t>(r) % alike.size()] == u) {
        found[forms()[u]].push_back(costs_of(u, values, rows, inputs[0].device()));
      } else {
        run(u, values, rows);
      }
      for (const int output : pieces_[u].outputs) {
        at::Tensor& value = values[at(output)];
        const bool has_gradient = value.requires_grad();
        value = value.detach();
        value.set_requires_grad(has_gradient);
      }
    }
  }
  std::vector<UnitCosts> all(pieces_.size());
  for (size_t u = 0; u < all.size(); ++u) {
    if (!wanted[u]) continue;
    std::vector<UnitCosts>& of = found[forms()[u]];
    all[u] = {median(of, &UnitCosts::forward_s), median(of, &UnitCosts::backward_s), median(of, &UnitCosts::weights_s),
              median(of, &UnitCosts::workspace_bytes)};
  }
  return all;
}

Tensors MeasuredUnits::begin(const Tensors& inputs) const {
  Tensors values(graph_.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[at(graph_.inputs[i])] = inputs[i];
  return values;
}

Tensors MeasuredUnits::inputs_of(size_t unit, const Tensors& values) const {
  Tensors inputs;
  for (const int input : pieces_[unit].inputs) inputs.push_back(values[at(input)]);
  return inputs;
}

void MeasuredUnits::run(size_t unit, Tensors& values, int64_t rows) const {
  Tensors outputs = interpreters_[unit].run(inputs_of(unit, values), {.rows = rows});
  for (size_t i = 0; i < outputs.size(); ++i) values[at(pieces_[unit].outputs[i])] = std::move(outputs[i]);
}

MeasuredUnits::Backward MeasuredUnits::backward_of(size_t unit, const Tensors& values) const {
  Backward pass{.wanted = parameters_[unit]};
  std::ranges::copy_if(inputs_of(unit, values), std::back_inserter(pass.inputs), [](const at::Tensor& each) { return each.requires_grad(); });
  pass.wanted.insert(pass.wanted.end(), pass.inputs.begin(), pass.inputs.end());
  for (const int output : pieces_[unit].outputs) {
    if (!values[at(output)].requires_grad()) continue;
    pass.ends.push_back(values[at(output)]);
    pass.cotangents.push_back(at::ones_like(pass.ends.back()));
  }
  return pass;
}

UnitCosts MeasuredUnits::costs_of(size_t unit, Tensors& values, int64_t rows, c10::Device device) const {
  UnitCosts costs{.forward_s = time_of(device, [&] { run(unit, values, rows); })};
  Tensors gradients;
  for (const at::Tensor& each : parameters_[unit]) gradients.push_back(at::zeros_like(each));
  {
    const Backward pass = backward_of(unit, values);
    if (pass.wanted.empty() || pass.ends.empty()) return costs;
    for (const at::Tensor& each : pass.cotangents) costs.workspace_bytes += static_cast<double>(each.nbytes());
    const int64_t workspace = peak_bytes(device.type(), [&] {
      costs.backward_s = time_of(device, [&] {
        const Tensors made = torch::autograd::grad(pass.ends, pass.wanted, pass.cotangents, false, false, true);
        for (size_t i = 0; i < gradients.size(); ++i) {
          if (made[i].defined()) gradients[i].add_(made[i]);
        }
      });
    });
    costs.workspace_bytes += static_cast<double>(workspace);
  }
  if (has_products(unit)) costs.weights_s = costs.backward_s * weights_share(unit, values, rows, device);
  return costs;
}

// Measures a second pass, in which caches are warm for both halves.
double MeasuredUnits::weights_share(size_t unit, Tensors& values, int64_t rows, c10::Device device) const {
  run(unit, values, rows);
  const Backward pass = backward_of(unit, values);
  if (pass.inputs.empty()) return 1;
  const double inputs = time_of(device, [&] { torch::autograd::grad(pass.ends, pass.inputs, pass.cotangents, true, false, true); });
  const double both = time_of(device, [&] { torch::autograd::grad(pass.ends, pass.wanted, pass.cotangents, false, false, true); });
  return both > 0 ? std::clamp(1 - inputs / both, 0.0, 1.0) : 0;
}

}  // namespace tw::pipeline
