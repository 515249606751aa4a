// SPDX-License-Identifier: Apache-2.0
#include <tw/pipeline/measured_profile.hpp>

#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/graph/cuts.hpp>
#include <tw/graph/interpreter.hpp>

#include "allocation_log.hpp"
#include "allocation_peak.hpp"

namespace tw::pipeline {
namespace {

using graph::Graph;
using graph::Piece;
using graph::Value;
using Tensors = std::vector<at::Tensor>;

size_t at(int index) { return static_cast<size_t>(index); }

/// The line through two points, nowhere below zero.
Affine line(double rows, double cost, double other_rows, double other_cost) {
  const double per_row = std::max(0.0, (cost - other_cost) / (rows - other_rows));
  return {.fixed = std::max(0.0, cost - per_row * rows), .per_row = per_row};
}

/// What a unit is, but for the values that it is computed from: equal for units that cost the same.
std::string form_of(const Graph& graph, const Piece& piece) {
  Graph alone;
  std::map<int, int> index;
  const auto renamed = [&](int value) {
    const auto [found, is_new] = index.emplace(value, static_cast<int>(alone.values.size()));
    if (is_new) {
      alone.values.push_back(graph.values[at(value)]);
      alone.values.back().name.clear();
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
  return form;
}

/// Unique, and something that a person recognises: "4 addmm relu head".
std::string name_of(const Graph& graph, const Piece& piece, size_t unit) {
  std::string name = std::to_string(unit);
  for (size_t i = 0; i < piece.nodes.size() && i < 4; ++i) {
    const std::string& op = graph.nodes[at(piece.nodes[i])].op;
    const std::string brief = op.substr(op.rfind(':') + 1);
    if (brief != "t") name += ' ' + brief;
  }
  if (!piece.tensors.empty()) {
    const std::string& tensor = graph.values[at(piece.tensors[0])].name;
    name += ' ' + tensor.substr(0, tensor.rfind('.'));
  }
  return name;
}

double bytes_of(const Value& value, int64_t rows) {
  auto bytes = static_cast<double>(c10::elementSize(value.dtype));
  for (const graph::Size& size : value.sizes) bytes *= static_cast<double>(size.of(rows));
  return bytes;
}

double time_of(const std::function<void()>& run) {
  const Stopwatch watch;
  run();
  return watch.elapsed().count();
}

struct Costs {
  double forward_s = 0;
  double backward_s = 0;
  double workspace_bytes = 0;
};

double median(std::vector<Costs>& costs, double Costs::* which) {
  const auto middle = costs.begin() + static_cast<int64_t>(costs.size() / 2);
  std::ranges::nth_element(costs, middle, {}, which);
  return (*middle).*which;
}

/// A graph in units, each with an interpreter of its own.
class Units {
 public:
  Units(const Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind)
      : graph_(graph), pieces_(pieces_of(graph, units_of(graph))) {
    for (const Piece& piece : pieces_) interpreters_.emplace_back(graph, piece.nodes, piece.inputs, piece.outputs, bind);
    for (const Piece& piece : pieces_) {
      parameters_.emplace_back();
      for (const int tensor : piece.tensors) {
        const Value& value = graph.values[at(tensor)];
        if (value.kind == Value::Kind::parameter && bind(value.name).requires_grad()) parameters_.back().push_back(bind(value.name));
      }
    }
  }

  const std::vector<Piece>& pieces() const { return pieces_; }

  /// By unit, the bytes that a forward pass keeps for the backward pass, its output included.
  std::vector<double> saved_bytes(const Tensors& inputs) const {
    const auto log = std::make_shared<AllocationLog>(pieces_.size());
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, log);
    std::vector<int> last(graph_.values.size(), -1);
    for (size_t u = 0; u < pieces_.size(); ++u) {
      for (const int input : pieces_[u].inputs) last[at(input)] = static_cast<int>(u);
    }
    for (const int output : graph_.outputs) last[at(output)] = -1;
    Tensors values = begin(inputs);
    for (size_t u = 0; u < pieces_.size(); ++u) {
      log->now(u);
      run(u, values, inputs[0].size(0));
      for (const int input : pieces_[u].inputs) {
        if (last[at(input)] == static_cast<int>(u)) values[at(input)] = at::Tensor();
      }
    }
    return log->bytes();
  }

  /// By unit, what is usual for its form: the medians of as many passes through the whole graph, each of which measures every form once, at another
  /// of its units, so that caches are as full of other things as in a step.
  std::vector<Costs> costs(const Tensors& inputs, const std::vector<std::string>& forms, int repetitions) const {
    const int64_t rows = inputs[0].size(0);
    std::map<std::string, std::vector<size_t>> units_of_form;
    for (size_t u = 0; u < forms.size(); ++u) units_of_form[forms[u]].push_back(u);
    std::map<std::string, std::vector<Costs>> found;
    for (int r = 0; r < repetitions; ++r) {
      Tensors values = begin(inputs);
      for (size_t u = 0; u < pieces_.size(); ++u) {
        const std::vector<size_t>& alike = units_of_form[forms[u]];
        if (alike[static_cast<size_t>(r) % alike.size()] == u) {
          found[forms[u]].push_back(costs_of(u, values, rows));
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
    std::vector<Costs> all;
    for (const std::string& form : forms) {
      std::vector<Costs>& of = found[form];
      all.push_back({median(of, &Costs::forward_s), median(of, &Costs::backward_s), median(of, &Costs::workspace_bytes)});
    }
    return all;
  }

 private:
  Tensors begin(const Tensors& inputs) const {
    Tensors values(graph_.values.size());
    for (size_t i = 0; i < inputs.size(); ++i) values[at(graph_.inputs[i])] = inputs[i];
    return values;
  }

  Tensors inputs_of(size_t unit, const Tensors& values) const {
    Tensors inputs;
    for (const int input : pieces_[unit].inputs) inputs.push_back(values[at(input)]);
    return inputs;
  }

  void run(size_t unit, Tensors& values, int64_t rows) const {
    Tensors outputs = interpreters_[unit].run(inputs_of(unit, values), {.rows = rows});
    for (size_t i = 0; i < outputs.size(); ++i) values[at(pieces_[unit].outputs[i])] = std::move(outputs[i]);
  }

  /// Runs the unit, and its backward pass with what adds to the gradients of parameters.
  Costs costs_of(size_t unit, Tensors& values, int64_t rows) const {
    const Tensors inputs = inputs_of(unit, values);
    Costs costs{.forward_s = time_of([&] { run(unit, values, rows); })};
    Tensors wanted = parameters_[unit];
    Tensors gradients;
    for (const at::Tensor& each : wanted) gradients.push_back(at::zeros_like(each));
    std::ranges::copy_if(inputs, std::back_inserter(wanted), [](const at::Tensor& each) { return each.requires_grad(); });
    Tensors ends;
    Tensors cotangents;
    for (const int output : pieces_[unit].outputs) {
      if (!values[at(output)].requires_grad()) continue;
      ends.push_back(values[at(output)]);
      cotangents.push_back(at::ones_like(ends.back()));
    }
    if (wanted.empty() || ends.empty()) return costs;
    for (const at::Tensor& each : cotangents) costs.workspace_bytes += static_cast<double>(each.nbytes());
    costs.workspace_bytes += peak_bytes([&] {
      costs.backward_s = time_of([&] {
        const Tensors made = torch::autograd::grad(ends, wanted, cotangents, false, false, true);
        for (size_t i = 0; i < gradients.size(); ++i) {
          if (made[i].defined()) gradients[i].add_(made[i]);
        }
      });
    });
    return costs;
  }

  const Graph& graph_;
  std::vector<Piece> pieces_;
  std::vector<graph::Interpreter> interpreters_;
  std::vector<Tensors> parameters_;  // by unit, those that are trained
};

}  // namespace

Profile measured_profile(const Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind, const Tensors& example,
                         int repetitions) {
  TW_EXPECTS(repetitions >= 1, "a measurement has one repetition at least");
  const c10::AutoGradMode gradients(true);
  Tensors more = example;
  if (example[0].size(0) == 1) {
    for (at::Tensor& each : more) each = at::cat({each, each});
  }
  const int64_t rows = more[0].size(0);
  const int64_t fewer_rows = rows / 2;
  Tensors fewer;
  for (const at::Tensor& each : more) fewer.push_back(each.narrow(0, 0, fewer_rows));

  const Units units(graph, bind);
  const std::vector<Piece>& pieces = units.pieces();
  std::vector<std::string> forms;
  for (const Piece& piece : pieces) forms.push_back(form_of(graph, piece));
  units.costs(fewer, forms, 1);  // LibTorch's first call of an operator is slow
  const std::vector<Costs> costs = units.costs(more, forms, repetitions);
  const std::vector<Costs> fewer_costs = units.costs(fewer, forms, repetitions);
  const std::vector<double> saved = units.saved_bytes(more);
  const std::vector<double> fewer_saved = units.saved_bytes(fewer);

  const auto through = [&](double cost, double fewer_cost) {
    return line(static_cast<double>(rows), cost, static_cast<double>(fewer_rows), fewer_cost);
  };
  const auto bytes = [&](const std::vector<int>& values) {
    double all = 0;
    double fewer_all = 0;
    for (const int value : values) {
      all += bytes_of(graph.values[at(value)], rows);
      fewer_all += bytes_of(graph.values[at(value)], fewer_rows);
    }
    return through(all, fewer_all);
  };
  Profile profile{.hash = graph.hash(), .input_bytes = bytes(graph.inputs), .operators = {}, .parameters = {}};
  std::map<int, int> parameter;  // by value
  std::vector<int> unit_of(graph.values.size(), -1);
  for (size_t u = 0; u < pieces.size(); ++u) {
    ProfiledOperator made;
    made.name = name_of(graph, pieces[u], u);
    for (const int input : pieces[u].inputs) {
      if (std::ranges::find(made.inputs, unit_of[at(input)]) == made.inputs.end()) made.inputs.push_back(unit_of[at(input)]);
    }
    for (const int tensor : pieces[u].tensors) {
      const Value& value = graph.values[at(tensor)];
      if (value.kind != Value::Kind::parameter) continue;
      const auto [found, is_new] = parameter.emplace(tensor, static_cast<int>(profile.parameters.size()));
      if (is_new) profile.parameters.push_back({value.name, bytes_of(value, rows)});
      made.parameters.push_back(found->second);
    }
    for (const int output : pieces[u].outputs) unit_of[at(output)] = static_cast<int>(u);
    made.forward = through(costs[u].forward_s, fewer_costs[u].forward_s);
    made.backward = through(costs[u].backward_s, fewer_costs[u].backward_s);
    made.output_bytes = bytes(pieces[u].outputs);
    made.saved_bytes = through(saved[u], fewer_saved[u]);
    made.workspace_bytes = through(costs[u].workspace_bytes, fewer_costs[u].workspace_bytes);
    profile.operators.push_back(std::move(made));
  }
  profile.validate();
  return profile;
}

}  // namespace tw::pipeline
