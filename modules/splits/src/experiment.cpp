// SPDX-License-Identifier: Apache-2.0
#include "experiment.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tw/base/numbers.hpp>
#include <tw/tensor/memory_order.hpp>

#include "size_variants.hpp"

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

/// Whether a result can show an error: a quarter of it is finite, and it is not one number everywhere.
bool shows_something(const at::Tensor& result) {
  if (!result.is_floating_point() || result.numel() < 2) return true;
  const at::Tensor finite = result.isfinite();
  if (finite.sum().item<int64_t>() * 4 < result.numel()) return false;
  const at::Tensor numbers = result.masked_select(finite);
  return (numbers.max() - numbers.min()).item<double>() > 0;
}

bool is_zero(const at::Tensor& tensor) { return tensor.count_nonzero().item<int64_t>() == 0; }

/// The largest number that is one.
double largest_of(const at::Tensor& tensor) { return tensor.numel() == 0 ? 0 : tensor.nan_to_num(0, 0, 0).abs().max().item<double>(); }

/// Booleans, and integers that are 0 or 1: a mask, for example, which is often all ones in an example.
bool is_flag(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBool || (tensor.numel() > 0 && tensor.min().item<int64_t>() >= 0 && tensor.max().item<int64_t>() <= 1);
}

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
    : subject_(subject), ranks_(ranks), values_(subject.graph.nodes[at(subject.node)].inputs()) {
  const graph::Node& node = subject.graph.nodes[at(subject.node)];
  std::ranges::copy_if(node.outputs, std::back_inserter(outputs_), [](int value) { return value >= 0; });
  for (std::vector<SizePlace>& divided : size_variants(node, ranks)) {
    graph::Node on_a_rank = node;
    on_a_rank.arguments = divided_arguments(node, divided, ranks);
    variants_.push_back({std::move(divided), OperatorRun(subject.graph, on_a_rank)});
  }
  using enum Kind::Others;
  // With one magnitude alone, a clamp at 10 would look linear, or an addition of 1e-20. Logarithms and roots need positive numbers.
  const std::array<Kind, all_kinds> kinds{Kind{.others = as_given}, Kind{.scale = 1e-30, .others = opposite}, Kind{.scale = 1e30},
                                          Kind{.positive = true}, Kind{.special = true}};
  uint64_t seed = 0;
  for (const Kind& each : kinds) {
    if (conclusive_ == most_kinds) break;
    std::optional<Trial> made = trial(each, ++seed);
    if (!made) continue;
    conclusive_ += made->is_conclusive ? 1 : 0;
    trials_.push_back(std::move(*made));
  }
  std::ranges::stable_partition(trials_, &Trial::is_conclusive);
}

at::Tensor Experiment::numbers_like(const at::Tensor& given, const Kind& kind, at::Generator& generator) {
  const auto drawn = [&] { return at::rand(given.sizes(), generator, at::TensorOptions(at::kDouble)); };
  if (given.is_floating_point()) {
    at::Tensor numbers = normal_like(given, kind.scale, generator);
    if (kind.positive) numbers = numbers.abs();
    if (!kind.special) return numbers;
    const at::Tensor which = drawn();
    return numbers.masked_fill(which < 0.25, 0).masked_fill(which < 0.125, std::numeric_limits<double>::quiet_NaN());
  }
  if (kind.others == Kind::Others::as_given) return given;
  if (is_flag(given)) return (kind.others == Kind::Others::opposite ? given.logical_not() : drawn() < 0.5).to(given.scalar_type());
  const at::Tensor order = at::randperm(given.numel(), generator, at::TensorOptions(at::kLong));
  return given.reshape({-1}).index_select(0, order).view(given.sizes());
}

std::optional<Experiment::Trial> Experiment::trial(const Kind& kind, uint64_t seed) const {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Trial made;
  try {
    for (const at::Tensor& each : subject_.inputs) made.inputs.push_back(numbers_like(each, kind, generator));
    const Pass pass = forward(0, made.inputs);
    made.is_conclusive = std::ranges::all_of(pass.outputs, shows_something);
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

Experiment::Pass Experiment::forward(size_t variant, const Tensors& inputs) const {
  Pass pass;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& each = inputs[i];
    const at::Tensor placed = empty_in_order(each.sizes(), each.options(), subject_.graph.values[at(values_[i])].order).copy_(each);
    pass.inputs.push_back(placed.set_requires_grad(placed.is_floating_point()));
  }
  pass.outputs = variants_[variant].run(pass.inputs, subject_.rows);
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
    return forward(0, inputs).outputs;
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
    const double scale = placements[i].is_partial() ? largest_of(whole) : 0;
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

std::optional<OperatorSplit> Experiment::attempt(const std::vector<Placement>& inputs, size_t variant) const {
  Shown shown{.outputs = {}, .partial_cotangents = std::vector<std::optional<bool>>(inputs.size())};
  for (const Trial& each : trials_) {
    if (!fits(each, variant, inputs, shown)) return std::nullopt;
  }
  const auto is_divided = [](const Placement& each) { return !each.is_whole(); };
  if (std::ranges::none_of(inputs, is_divided) && std::ranges::none_of(shown.outputs, is_divided)) return std::nullopt;
  OperatorSplit split{
      .inputs = inputs, .has_partial_cotangent = {}, .outputs = std::move(shown.outputs), .divided_sizes = variants_[variant].divided_sizes};
  for (const std::optional<bool>& each : shown.partial_cotangents) split.has_partial_cotangent.push_back(each.value_or(false));
  return split;
}

bool Experiment::confirms(const OperatorSplit& split) const {
  const auto variant = std::ranges::find(variants_, split.divided_sizes, &Variant::divided_sizes);
  if (variant == variants_.end() || trials_.empty()) return false;
  Shown shown{.outputs = split.outputs, .partial_cotangents = {split.has_partial_cotangent.begin(), split.has_partial_cotangent.end()}};
  return std::ranges::all_of(trials_,
                             [&](const Trial& each) { return fits(each, static_cast<size_t>(variant - variants_.begin()), split.inputs, shown); });
}

bool Experiment::fits(const Trial& trial, size_t variant, const std::vector<Placement>& inputs, Shown& shown) const {
  try {
    std::vector<Pass> passes;
    for (const Tensors& each : parts(trial, inputs)) passes.push_back(forward(variant, each));
    for (size_t i = 0; i < trial.outputs.size(); ++i) {
      Tensors of_output;
      for (const Pass& each : passes) of_output.push_back(each.outputs.at(i).detach());
      if (i < shown.outputs.size()) {
        if (!holds(shown.outputs[i], trial.outputs[i], of_output)) return false;
        continue;
      }
      const auto placed = trial.is_conclusive ? placement_of(i, trial.outputs[i], of_output) : std::nullopt;
      if (!placed) return false;
      shown.outputs.push_back(*placed);
    }
    std::vector<Tensors> gradients;
    for (int rank = 0; rank < ranks_; ++rank) {
      Tensors cotangents = trial.cotangents;
      for (size_t i = 0; i < cotangents.size(); ++i) {
        if (cotangents[i].defined() && shown.outputs[i].is_split()) cotangents[i] = splits::part_of(cotangents[i], shown.outputs[i], rank, ranks_);
      }
      gradients.push_back(passes[at(rank)].gradients(cotangents));
    }
    return fits_backward(trial, gradients, inputs, shown);
  } catch (const std::exception&) {  // the parts do not fit each other
    return false;
  }
}

bool Experiment::holds(const Placement& placement, const at::Tensor& whole, const Tensors& parts) const {
  if (placement.is_whole()) return all_close(whole, parts);
  if (placement.is_partial()) return are_close(whole, sum_of(parts));
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!are_close(splits::part_of(whole, placement, rank, ranks_), parts[at(rank)])) return false;
  }
  return true;
}

/// Other numbers than floating-point ones are never computed by parts: any() of numbers that are not zero is true for each part.
std::optional<Placement> Experiment::placement_of(size_t output, const at::Tensor& whole, const Tensors& parts) const {
  const at::Tensor& part = parts.front();
  if (!whole.is_floating_point() || part.dim() != whole.dim()) return std::nullopt;
  if (part.sizes().equals(whole.sizes())) {
    for (const Placement& each : {Placement(), Placement::partial()}) {
      if (holds(each, whole, parts)) return each;
    }
    return std::nullopt;
  }
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
    if (part.size(dimension) % groups == 0 && holds(placement, whole, parts)) return placement;
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
    if (inputs[i].is_split() || inputs[i].is_partial()) {
      if (!holds(inputs[i].is_split() ? inputs[i] : Placement(), whole, parts)) return false;
      continue;
    }
    std::optional<bool>& is_partial = shown.partial_cotangents[i];
    if (!is_partial && !is_zero(whole)) is_partial = !all_close(whole, parts);  // zero as where a softmax saturates
    if (!holds(is_partial.value_or(false) ? Placement::partial() : Placement(), whole, parts)) return false;
  }
  return true;
}

}  // namespace tw::splits
