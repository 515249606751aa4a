// SPDX-License-Identifier: Apache-2.0
#include "experiment.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <tw/base/numbers.hpp>
#include <tw/tensor/memory_order.hpp>

namespace tw::splits {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Relative to the largest number: another order of summation rounds differently.
constexpr double tolerance = 1e-12;

at::Tensor normal_like(const at::Tensor& tensor, double scale, at::Generator& generator) {
  return at::randn(tensor.sizes(), generator, at::TensorOptions(at::kDouble)) * scale;
}

/// Equal but for rounding. NaNs and infinities must be in the same places.
bool are_close(const at::Tensor& a, const at::Tensor& b) {
  if (!a.sizes().equals(b.sizes()) || a.scalar_type() != b.scalar_type()) return false;
  if (!a.is_floating_point() || a.numel() == 0) return a.equal(b);
  const auto difference = (a - b).abs_().max().item<double>();
  if (std::isfinite(difference)) return difference <= tolerance * a.abs().max().item<double>();
  const at::Tensor finite = a.isfinite();
  if (!finite.equal(b.isfinite())) return false;
  const at::Tensor others_equal = a.eq(b).logical_or(a.isnan().logical_and(b.isnan())).logical_or(finite);
  if (!others_equal.all().item<bool>()) return false;
  const at::Tensor x = a.masked_fill(finite.logical_not(), 0);
  const at::Tensor y = b.masked_fill(finite.logical_not(), 0);
  return (x - y).abs().max().item<double>() <= tolerance * x.abs().max().item<double>();
}

/// Whether a result can show an error: half of it is finite, and it is not one number everywhere.
bool shows_something(const at::Tensor& result) {
  if (!result.is_floating_point() || result.numel() < 2) return true;
  const at::Tensor finite = result.isfinite();
  if (finite.sum().item<int64_t>() * 2 < result.numel()) return false;
  const at::Tensor numbers = result.masked_select(finite);
  return (numbers.max() - numbers.min()).item<double>() > 0;
}

/// Other numbers than floating-point ones: booleans are drawn, integers are shuffled, since they may be indices.
at::Tensor others_like(const at::Tensor& tensor, at::Generator& generator) {
  if (tensor.scalar_type() == at::kBool) return at::rand(tensor.sizes(), generator, at::TensorOptions(at::kDouble)) < 0.5;
  const at::Tensor order = at::randperm(tensor.numel(), generator, at::TensorOptions(at::kLong));
  return tensor.reshape({-1}).index_select(0, order).view(tensor.sizes());
}

bool is_zero(const at::Tensor& tensor) { return tensor.count_nonzero().item<int64_t>() == 0; }

at::Tensor sum_of(const Tensors& parts) {
  at::Tensor sum = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i];
  return sum;
}

bool all_close(const at::Tensor& to, const Tensors& each) {
  return std::ranges::all_of(each, [&](const at::Tensor& part) { return are_close(to, part); });
}

}  // namespace

Experiment::Experiment(const Subject& subject, int ranks, size_t most_kinds)
    : subject_(subject),
      ranks_(ranks),
      values_(subject.graph.nodes[at(subject.node)].inputs()),
      whole_(subject.graph, subject.graph.nodes[at(subject.node)]) {
  std::ranges::copy_if(subject.graph.nodes[at(subject.node)].outputs, std::back_inserter(outputs_), [](int value) { return value >= 0; });
  // With one magnitude alone, a clamp at 10 would look linear. Logarithms and roots need positive numbers.
  const std::array<Kind, all_kinds> kinds{Kind{.as_given = true}, Kind{.scale = 1e-3}, Kind{.scale = 1e8}, Kind{.positive = true}};
  uint64_t seed = 0;
  for (const Kind& each : kinds) {
    if (trials_.size() == most_kinds) break;
    if (std::optional<Trial> made = trial(each, ++seed)) trials_.push_back(std::move(*made));
  }
}

std::optional<Experiment::Trial> Experiment::trial(const Kind& kind, uint64_t seed) const {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Trial made;
  for (const at::Tensor& each : subject_.inputs) {
    if (each.is_floating_point()) {
      const at::Tensor numbers = normal_like(each, kind.scale, generator);
      made.inputs.push_back(kind.positive ? numbers.abs() : numbers);
    } else {
      made.inputs.push_back(kind.as_given ? each : others_like(each, generator));
    }
  }
  try {
    const Pass pass = forward(whole_, made.inputs);
    if (!std::ranges::all_of(pass.outputs, shows_something)) return std::nullopt;
    for (const at::Tensor& each : pass.outputs) {
      made.cotangents.push_back(each.requires_grad() ? normal_like(each, 1, generator) : at::Tensor());
      made.outputs.push_back(each.detach());
    }
    made.gradients = pass.gradients(made.cotangents);
  } catch (const std::exception&) {  // not for such numbers, or not for float64
    return std::nullopt;
  }
  return made;
}

Experiment::Pass Experiment::forward(const OperatorRun& run, const Tensors& inputs) const {
  Pass pass;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& each = inputs[i];
    const at::Tensor placed = empty_in_order(each.sizes(), each.options(), subject_.graph.values[at(values_[i])].order).copy_(each);
    pass.inputs.push_back(placed.set_requires_grad(placed.is_floating_point()));
  }
  pass.outputs = run(pass.inputs, subject_.rows);
  return pass;
}

Tensors Experiment::Pass::gradients(const Tensors& cotangents) const {
  Tensors from;
  Tensors with;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!cotangents[i].defined() || !outputs[i].requires_grad()) continue;
    from.push_back(outputs[i]);
    with.push_back(cotangents[i]);
  }
  Tensors leaves;
  std::ranges::copy_if(inputs, std::back_inserter(leaves), [](const at::Tensor& each) { return each.requires_grad(); });
  Tensors by_input(inputs.size());
  if (from.empty() || leaves.empty()) return by_input;
  const Tensors found = torch::autograd::grad(from, leaves, with, /*retain_graph=*/std::nullopt, /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0, next = 0; i < inputs.size(); ++i) {
    if (inputs[i].requires_grad()) by_input[i] = found[next++];
  }
  return by_input;
}

bool Experiment::is_affine_in(size_t input) const {
  const Trial& trial = trials_.front();
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(815);
  const at::Tensor& x = trial.inputs[input];
  const at::Tensor y = normal_like(x, 1, generator);
  const auto outputs_for = [&](const at::Tensor& value) {
    Tensors inputs = trial.inputs;
    inputs[input] = value;
    return forward(whole_, inputs).outputs;
  };
  try {
    const Tensors of_y = outputs_for(y);
    const Tensors of_sum = outputs_for(x + y);
    const Tensors of_zero = outputs_for(at::zeros_like(x));
    for (size_t i = 0; i < trial.outputs.size(); ++i) {
      if (!trial.outputs[i].is_floating_point()) return false;
      if (!are_close(of_sum[i].detach() + of_zero[i].detach(), trial.outputs[i] + of_y[i].detach())) return false;
    }
  } catch (const std::exception&) {  // not for such numbers
    return false;
  }
  return true;
}

std::vector<Tensors> Experiment::parts(const Trial& trial, const std::vector<Placement>& placements) const {
  std::vector<Tensors> by_rank(at(ranks_));
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(4711);
  for (size_t i = 0; i < placements.size(); ++i) {
    const at::Tensor& whole = trial.inputs[i];
    const double scale = placements[i].is_partial() ? whole.abs().max().item<double>() : 0;
    at::Tensor rest = whole;
    for (int rank = 0; rank < ranks_; ++rank) {
      at::Tensor part = whole;
      if (placements[i].is_split()) part = splits::part_of(whole, placements[i], rank, ranks_);
      if (placements[i].is_partial()) {
        part = rank + 1 < ranks_ ? normal_like(whole, scale, generator) : rest;
        rest = rest - part;
      }
      by_rank[at(rank)].push_back(part);
    }
  }
  return by_rank;
}

std::optional<OperatorSplit> Experiment::attempt(const std::vector<Placement>& inputs, const std::vector<graph::Argument>& arguments) const {
  graph::Node node = subject_.graph.nodes[at(subject_.node)];
  node.arguments = arguments;
  const OperatorRun on_parts(subject_.graph, node);
  Shown shown{.outputs = {}, .partial_cotangents = std::vector<std::optional<bool>>(inputs.size())};
  for (const Trial& each : trials_) {
    if (!fits(each, on_parts, inputs, shown)) return std::nullopt;
  }
  const auto is_divided = [](const Placement& each) { return !each.is_whole(); };
  if (std::ranges::none_of(inputs, is_divided) && std::ranges::none_of(shown.outputs, is_divided)) return std::nullopt;
  OperatorSplit split{.inputs = inputs, .has_partial_cotangent = {}, .outputs = std::move(shown.outputs), .arguments = arguments};
  for (const std::optional<bool>& each : shown.partial_cotangents) split.has_partial_cotangent.push_back(each.value_or(false));
  return split;
}

bool Experiment::fits(const Trial& trial, const OperatorRun& on_parts, const std::vector<Placement>& inputs, Shown& shown) const {
  try {
    std::vector<Pass> passes;
    for (const Tensors& each : parts(trial, inputs)) passes.push_back(forward(on_parts, each));
    std::vector<Placement> outputs;
    for (size_t i = 0; i < trial.outputs.size(); ++i) {
      Tensors of_output;
      for (const Pass& each : passes) of_output.push_back(each.outputs.at(i).detach());
      const auto placed = placement_of(i, trial.outputs[i], of_output);
      if (!placed) return false;
      outputs.push_back(*placed);
    }
    if (shown.outputs.empty()) shown.outputs = outputs;
    if (shown.outputs != outputs) return false;
    std::vector<Tensors> gradients;
    for (int rank = 0; rank < ranks_; ++rank) {
      Tensors cotangents = trial.cotangents;
      for (size_t i = 0; i < cotangents.size(); ++i) {
        if (cotangents[i].defined() && outputs[i].is_split()) cotangents[i] = splits::part_of(cotangents[i], outputs[i], rank, ranks_);
      }
      gradients.push_back(passes[at(rank)].gradients(cotangents));
    }
    return fits_backward(trial, gradients, inputs, shown);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // the parts do not fit each other
    return false;
  }
}

std::optional<Placement> Experiment::placement_of(size_t output, const at::Tensor& whole, const Tensors& parts) const {
  const at::Tensor& part = parts.front();
  if (part.sizes().equals(whole.sizes())) {
    if (all_close(whole, parts)) return Placement();
    const bool is_sum = whole.is_floating_point() && are_close(whole, sum_of(parts));
    return is_sum ? std::optional(Placement::partial()) : std::nullopt;
  }
  if (part.dim() != whole.dim() || !whole.is_floating_point()) return std::nullopt;  // other numbers are never sent
  int dimension = -1;
  for (int d = 0; d < whole.dim(); ++d) {
    if (part.size(d) == whole.size(d)) continue;
    if (dimension >= 0 || part.size(d) * ranks_ != whole.size(d)) return std::nullopt;
    dimension = d;
  }
  // A dimension with rows would have other groups for other numbers of rows.
  if (dimension < 0 || subject_.graph.values[at(outputs_[output])].sizes[at(dimension)].per_row != 0) return std::nullopt;
  for (int64_t groups = 1; groups <= part.size(dimension); ++groups) {
    const Placement placement = Placement::split(dimension, groups);
    if (part.size(dimension) % groups != 0) continue;
    bool all = true;
    for (int rank = 0; all && rank < ranks_; ++rank) all = are_close(splits::part_of(whole, placement, rank, ranks_), parts[at(rank)]);
    if (all) return placement;
  }
  return std::nullopt;
}

bool Experiment::fits_backward(const Trial& trial, const std::vector<Tensors>& gradients, const std::vector<Placement>& inputs, Shown& shown) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& whole = trial.gradients[i];
    Tensors parts;
    for (const Tensors& each : gradients) parts.push_back(each[i]);
    const bool none_here = std::ranges::none_of(parts, &at::Tensor::defined);
    if (!whole.defined() && none_here) continue;
    if (!whole.defined() || !std::ranges::all_of(parts, &at::Tensor::defined)) return false;
    if (inputs[i].is_split()) {
      for (int rank = 0; rank < ranks_; ++rank) {
        if (!are_close(splits::part_of(whole, inputs[i], rank, ranks_), parts[at(rank)])) return false;
      }
      continue;
    }
    const bool are_equal = all_close(whole, parts);
    if (!are_equal && (inputs[i].is_partial() || !are_close(whole, sum_of(parts)))) return false;
    if (is_zero(whole)) continue;  // as where a softmax saturates
    std::optional<bool>& known = shown.partial_cotangents[i];
    if (!known) known = !are_equal;
    if (*known == are_equal) return false;
  }
  return true;
}

}  // namespace tw::splits
