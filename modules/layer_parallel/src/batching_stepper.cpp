// SPDX-License-Identifier: Apache-2.0
#include "batching_stepper.hpp"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <tw/autograd/autocast.hpp>
#include <tw/autograd/generator.hpp>
#include <tw/base/concat.hpp>
#include <tw/parallel_in_time/states.hpp>

#include "step_graph.hpp"
#include "steppers.hpp"

namespace tw::layer_parallel {
namespace {

/// Compares `stepper` with `reference` on two layers, which is enough because all layers do the same. @return the difference; empty: none
std::string difference_of_steppers(const LayerStack& stack, Stepper& stepper, Stepper& reference, const State& like, const State& extras) {
  const Rows all{0, std::min<int64_t>(stack.range().size(), 2), 1};
  const Rows layers{stack.range().begin, all.count, 1};
  const auto drawn = [&] {
    return each(like, [&](const at::Tensor& t) {
      std::vector<int64_t> shape = t.sizes().vec();
      shape[0] = all.count;
      return at::randn(shape, t.options());
    });
  };
  const State states = drawn();
  const State cotangents = drawn();
  const auto results_of = [&](Stepper& checked) {
    auto [results, linearised] = checked.linearise(layers, states, {extras, {}});
    std::vector<at::Tensor> gradients;
    for (const StackedTensor& p : stack.parameters()) {
      const at::Tensor some = p.stack.detach().narrow(0, 0, all.count);
      gradients.push_back(p.stack.requires_grad() ? at::zeros_like(some, at::TensorOptions(), at::MemoryFormat::Contiguous) : at::Tensor());
    }
    const State passed = linearised->transposed(all, cotangents, gradients);
    results.insert(results.end(), passed.begin(), passed.end());
    for (const at::Tensor& g : gradients) {
      if (g.defined()) results.push_back(g);
    }
    return results;
  };
  const State given = results_of(stepper);
  const State expected = results_of(reference);
  for (size_t i = 0; i < given.size(); ++i) {
    const double error = at::linalg_vector_norm(given[i].sub(expected[i]).to(at::kDouble)).item<double>();
    const double norm = at::linalg_vector_norm(expected[i].to(at::kDouble)).item<double>();
    const double tolerance = given[i].scalar_type() == at::kDouble ? 1e-12 : 1e-5;  // about 50 rounding errors in float32, many more in float64
    if (!(error <= tolerance * norm)) return concat("batched layers compute different results, by ", error / norm, " of the norm");
  }
  return "";
}

bool has_convolutions(const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const graph::Node& node) { return node.op.find("conv") != std::string::npos; });
}

}  // namespace

BatchingStepper::BatchingStepper(const LayerStack& stack, const BlockOptions& options, const State& states, const State& extras, double dt)
    : stack_(stack), options_(options), dt_(dt), one_by_one_(make_one_by_one(stack, options.integrator, dt)) {
  if (stack.range().size() > 0) find(states, extras);
}

State BatchingStepper::run(const Rows& layers, const State& states, const StepContext& with) {
  return stepper_for(layers, states, with.extras).run(layers, states, with);
}

std::pair<State, std::unique_ptr<Linearised>> BatchingStepper::linearise(const Rows& layers, const State& states, const StepContext& with) {
  return stepper_for(layers, states, with.extras).linearise(layers, states, with);
}

Stepper& BatchingStepper::stepper_for(const Rows& layers, const State& states, const State& extras) {
  last_pass_ = stack_.pass();
  bool already_searched = false;
  for (int64_t i = 0; together_ && i < layers.count; ++i) {
    const int64_t layer = layers.begin + i * layers.spacing;
    uint64_t& checked_in_pass = checked_in_pass_[static_cast<size_t>(layer - stack_.range().begin)];
    const bool is_trusted = options_.batching == Batching::always && checked_in_pass != 0;
    if (checked_in_pass == stack_.pass() || is_trusted) continue;
    const std::string other = seen_->difference(stack_.parameters_of(layer), step_of(layer));
    if (other.empty()) {
      checked_in_pass = stack_.pass();
    } else if (!std::exchange(already_searched, true)) {
      find(states, extras);  // all layers may have changed
      i = -1;
    } else {
      together_.reset();
      unbatchable_ = concat("layer ", layer, " does not compute what layer ", stack_.range().begin, " computes: ", other);
    }
  }
  return together_ ? *together_ : *one_by_one_;
}

OperatorTrace::Step BatchingStepper::step_of(int64_t layer) const {
  return [this, layer](const State& state, const State& extras) { return step(stack_.layer(layer), options_.integrator, state, extras, dt_); };
}

void BatchingStepper::find(const State& states, const State& extras) {
  unbatchable_.clear();
  checked_in_pass_.assign(static_cast<size_t>(stack_.range().size()), 0);
  try {
    together_ = found(states, extras);
  } catch (const std::exception& e) {
    const std::string what = e.what();
    together_.reset();
    unbatchable_ = what.substr(0, what.find('\n'));
  }
}

std::unique_ptr<Stepper> BatchingStepper::found(const State& states, const State& extras) {
  const auto refuse = [&](std::string why) {
    unbatchable_ = std::move(why);
    return nullptr;
  };
  if (options_.batching == Batching::never) return refuse("Batching::never");
  if (options_.random) return refuse("the layers draw random numbers");
  if (stack_.has_split_layers()) return refuse("the layers contain split layers, which communicate");
  if (!stack_.buffers().empty()) return refuse("the layers have buffers");
  if (AutocastState::here().is_on()) return refuse("the layers run under autocast");  // a program of operators has no casts by autocast
  GeneratorGuard generator;
  generator.seed(0, 0);
  const int64_t first = stack_.range().begin;
  const State example = each(row(states, 0), [](const at::Tensor& t) { return at::randn_like(t); });
  const std::vector<at::Tensor> parameters = stack_.parameters_of(first);
  seen_ = OperatorTrace::of(example, extras, parameters, step_of(first));
  if (!seen_->doubt().empty()) return refuse(seen_->doubt());
  if (const std::string other = seen_->difference(parameters, step_of(first)); !other.empty())
    return refuse(concat("a second run of a layer differs from the first: ", other));
  const graph::Graph graph = step_graph(stack_, first, options_.integrator, example, extras, dt_);
  std::string problem;
  std::unique_ptr<Stepper> together;
  if (auto program = StepProgram::compile(graph, states.size(), extras.size(), problem)) {
    together = make_programmed(stack_, std::move(program));
  } else {
    auto vmapped = std::make_unique<VmappedStep>(graph);
    if (vmapped->is_random()) return refuse("the layers draw random numbers");
    if (options_.batching == Batching::automatic && has_convolutions(graph)) {
      return refuse("the layers contain convolutions, which are slower in a batch");
    }
    together = make_vmapped(stack_, std::move(vmapped));
  }
  problem = difference_of_steppers(stack_, *together, *one_by_one_, states, extras);
  return problem.empty() ? std::move(together) : refuse(problem);
}

}  // namespace tw::layer_parallel
