// SPDX-License-Identifier: Apache-2.0
#include "steppers.hpp"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/parallel_in_time/states.hpp>

#include "random_watch.hpp"

namespace tw::layer_parallel {
namespace {

using Gradients = std::vector<at::Tensor>;

State leaves_of(const State& states) {
  return each(states, [](const at::Tensor& t) { return t.detach().set_requires_grad(t.is_floating_point() || t.is_complex()); });
}

/// An autograd graph.
struct Graph {
  State from;  // leaves
  State to;
  Gradients leaves;  // parameters

  /// Cotangents of the states, zero where no gradient reaches them. Gradients of the parameters are added to `gradients`, where defined.
  State transposed(const State& cotangents, const Gradients& gradients) const {
    std::vector<at::Tensor> outputs;
    std::vector<at::Tensor> weights;
    for (size_t i = 0; i < to.size(); ++i) {
      if (!to[i].requires_grad()) continue;
      outputs.push_back(to[i]);
      weights.push_back(cotangents[i]);
    }
    std::vector<at::Tensor> inputs;
    for (const at::Tensor& state : from) {
      if (state.requires_grad()) inputs.push_back(state);
    }
    const size_t states = inputs.size();
    std::vector<at::Tensor> targets;
    for (size_t p = 0; p < gradients.size(); ++p) {
      if (!gradients[p].defined() || !leaves[p].requires_grad()) continue;
      inputs.push_back(leaves[p]);
      targets.push_back(gradients[p]);
    }
    Gradients found(inputs.size());
    if (!outputs.empty()) found = torch::autograd::grad(outputs, inputs, weights, /*retain_graph=*/true, false, /*allow_unused=*/true);
    for (size_t t = 0; t < targets.size(); ++t) {
      if (found[states + t].defined()) targets[t].add_(found[states + t]);
    }
    State result;
    size_t next = 0;
    for (const at::Tensor& state : from) {
      const at::Tensor cotangent = state.requires_grad() ? found[next++] : at::Tensor();
      result.push_back(cotangent.defined() ? cotangent : at::zeros_like(state));
    }
    return result;
  }
};

class GraphsOfLayers : public Linearised {
 public:
  void add(Graph graph) { graphs_.push_back(std::move(graph)); }

  State transposed(const Rows& wanted, const State& cotangents, const Gradients& gradients) const override {
    std::vector<State> results;
    for (int64_t i = 0; i < wanted.count; ++i) {
      Gradients own;
      for (const at::Tensor& g : gradients) own.push_back(g.defined() ? g.select(0, i) : g);
      results.push_back(graphs_[static_cast<size_t>(wanted.begin + i * wanted.spacing)].transposed(row(cotangents, i), own));
    }
    return stack(results);
  }

 private:
  std::vector<Graph> graphs_;
};

class OneByOne : public Stepper {
 public:
  OneByOne(const LayerStack& stack, Integrator integrator, double dt)
      : stack_(stack), integrator_(integrator), dt_(dt), checked_in_pass_(static_cast<size_t>(stack.range().size()), 0) {}

  bool runs_together() const override { return false; }

  State run(const Rows& layers, const State& states, const StepContext& with) override {
    const c10::AutoGradMode no_gradients(false);
    std::vector<State> results;
    for (int64_t i = 0; i < layers.count; ++i) results.push_back(step_of(layers.begin + i * layers.spacing, row(states, i), with));
    return stack(results);
  }

  std::pair<State, std::unique_ptr<Linearised>> linearise(const Rows& layers, const State& states, const StepContext& with) override {
    const c10::AutoGradMode gradients(true);
    auto graphs = std::make_unique<GraphsOfLayers>();
    std::vector<State> results;
    for (int64_t i = 0; i < layers.count; ++i) {
      const int64_t layer = layers.begin + i * layers.spacing;
      const State from = leaves_of(row(states, i));
      const State to = step_of(layer, from, with);
      graphs->add({from, to, stack_.parameters_of(layer)});
      results.push_back(detached(to));
    }
    return {stack(results), std::move(graphs)};
  }

 private:
  State step_of(int64_t layer, const State& state, const StepContext& with) {
    if (with.seed) {
      with.seed(layer);
      return step(stack_.layer(layer), integrator_, state, with.extras, dt_);
    }
    uint64_t& checked_in_pass = checked_in_pass_[static_cast<size_t>(layer - stack_.range().begin)];
    if (checked_in_pass == stack_.pass()) return step(stack_.layer(layer), integrator_, state, with.extras, dt_);
    const RandomWatch watch;
    State result = step(stack_.layer(layer), integrator_, state, with.extras, dt_);
    TW_EXPECTS(watch.drawn_by().empty(), stack_.name_of(layer), " draws random numbers (", watch.drawn_by(),
               "), which differ between the iterations of a pass: make its block with BlockOptions{.random = true}. In evaluation mode a layer must "
               "draw none");
    checked_in_pass = stack_.pass();
    return result;
  }

  const LayerStack& stack_;
  Integrator integrator_;
  double dt_;
  std::vector<uint64_t> checked_in_pass_;  // by layer: the last pass in which it was checked to draw no random numbers
};

class GraphOfStack : public Linearised {
 public:
  explicit GraphOfStack(Graph graph) : graph_(std::move(graph)) {}

  // The graph covers all rows or none. Rows that are not wanted get zero cotangents.
  State transposed(const Rows& wanted, const State& cotangents, const Gradients& gradients) const override {
    const int64_t n = graph_.from.front().size(0);
    if (wanted.count == n) return graph_.transposed(cotangents, gradients);
    const auto of_all = [&](const at::Tensor& some) {
      at::Tensor all = zeros_like_rows({some}, n)[0];
      rows({all}, wanted.begin, wanted.count, wanted.spacing)[0].copy_(some);
      return all;
    };
    Gradients all;
    for (const at::Tensor& g : gradients) all.push_back(g.defined() ? zeros_like_rows({g}, n)[0] : g);
    const State result = rows(graph_.transposed(each(cotangents, of_all), all), wanted.begin, wanted.count, wanted.spacing);
    for (size_t p = 0; p < all.size(); ++p) {
      if (all[p].defined()) gradients[p].add_(rows({all[p]}, wanted.begin, wanted.count, wanted.spacing)[0]);
    }
    return result;
  }

 private:
  Graph graph_;
};

class Vmapped : public Stepper {
 public:
  Vmapped(const LayerStack& stack, std::unique_ptr<VmappedStep> step) : stack_(stack), step_(std::move(step)) {}

  State run(const Rows& layers, const State& states, const StepContext& with) override {
    const c10::AutoGradMode no_gradients(false);
    return step_->run(states, with.extras, stack_.parameters_of(layers));
  }

  std::pair<State, std::unique_ptr<Linearised>> linearise(const Rows& layers, const State& states, const StepContext& with) override {
    const c10::AutoGradMode gradients(true);
    Graph graph{leaves_of(states), {}, detached(stack_.parameters_of(layers))};
    for (size_t p = 0; p < graph.leaves.size(); ++p) graph.leaves[p].set_requires_grad(stack_.parameters()[p].stack.requires_grad());
    graph.to = step_->run(graph.from, with.extras, graph.leaves);
    State to = detached(graph.to);
    return {std::move(to), std::make_unique<GraphOfStack>(std::move(graph))};
  }

 private:
  const LayerStack& stack_;
  std::unique_ptr<VmappedStep> step_;
};

class KeptByProgram : public Linearised {
 public:
  KeptByProgram(std::shared_ptr<const StepProgram> program, StepProgram::Kept kept) : program_(std::move(program)), kept_(std::move(kept)) {}
  State transposed(const Rows& wanted, const State& cotangents, const Gradients& gradients) const override {
    return program_->transposed(kept_, wanted, cotangents, gradients);
  }

 private:
  std::shared_ptr<const StepProgram> program_;
  StepProgram::Kept kept_;
};

class Programmed : public Stepper {
 public:
  Programmed(const LayerStack& stack, std::unique_ptr<StepProgram> program) : stack_(stack), program_(std::move(program)) {}

  State run(const Rows& layers, const State& states, const StepContext& with) override {
    return program_->run(states, with.extras, stack_.parameters_of(layers), nullptr);
  }

  std::pair<State, std::unique_ptr<Linearised>> linearise(const Rows& layers, const State& states, const StepContext& with) override {
    StepProgram::Kept kept;
    State to = program_->run(states, with.extras, stack_.parameters_of(layers), &kept);
    return {std::move(to), std::make_unique<KeptByProgram>(program_, std::move(kept))};
  }

 private:
  const LayerStack& stack_;
  std::shared_ptr<const StepProgram> program_;
};

}  // namespace

std::unique_ptr<Stepper> make_one_by_one(const LayerStack& stack, Integrator integrator, double dt) {
  return std::make_unique<OneByOne>(stack, integrator, dt);
}

std::unique_ptr<Stepper> make_vmapped(const LayerStack& stack, std::unique_ptr<VmappedStep> step) {
  return std::make_unique<Vmapped>(stack, std::move(step));
}

std::unique_ptr<Stepper> make_programmed(const LayerStack& stack, std::unique_ptr<StepProgram> program) {
  return std::make_unique<Programmed>(stack, std::move(program));
}

}  // namespace tw::layer_parallel
