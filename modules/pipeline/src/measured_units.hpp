// SPDX-License-Identifier: Apache-2.0
// The units of a graph, each run alone, and what that takes.
#pragma once
#include <functional>
#include <string>
#include <tw/graph/cuts.hpp>
#include <tw/graph/interpreter.hpp>
#include <vector>

namespace tw::pipeline {

struct UnitCosts {
  double forward_s = 0;
  double backward_s = 0;
  double workspace_bytes = 0;  ///< see ProfiledOperator
};

/// By unit, the rank that measures it. Units of one form have one rank, and each rank has as many forms as any other, or one more or less.
std::vector<int> measuring_ranks(const std::vector<std::string>& forms, int ranks);

/// A graph in units, each with an interpreter of its own. Measured where the inputs lie.
class MeasuredUnits {
 public:
  /// @param graph kept by reference. @param bind gives a parameter's or buffer's tensor by its name
  MeasuredUnits(const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind);

  const std::vector<graph::Piece>& pieces() const noexcept { return pieces_; }
  /// By unit, what it is and which gradients it has to give, but for the values that it is computed from: equal for units that cost the same.
  const std::vector<std::string>& forms() const noexcept { return forms_; }

  /// By unit, the bytes that a forward pass keeps for the backward pass, its output included.
  std::vector<double> saved_bytes(const std::vector<at::Tensor>& inputs) const;
  /// By unit, of those that are `wanted` only, which are all of a form or none, what is usual for its form: the medians of as many passes through the
  /// whole graph, each of which measures every form once, at another of its units, so that caches are as full of other things as in a step.
  std::vector<UnitCosts> costs(const std::vector<at::Tensor>& inputs, const std::vector<bool>& wanted, int repetitions) const;

 private:
  std::vector<at::Tensor> begin(const std::vector<at::Tensor>& inputs) const;
  std::vector<at::Tensor> inputs_of(size_t unit, const std::vector<at::Tensor>& values) const;
  void run(size_t unit, std::vector<at::Tensor>& values, int64_t rows) const;
  /// Runs the unit, and its backward pass with what adds to the gradients of parameters.
  UnitCosts costs_of(size_t unit, std::vector<at::Tensor>& values, int64_t rows, c10::Device device) const;

  const graph::Graph& graph_;
  std::vector<graph::Piece> pieces_;
  std::vector<std::string> forms_;
  std::vector<graph::Interpreter> interpreters_;
  std::vector<std::vector<at::Tensor>> parameters_;  // by unit, those that are trained
};

}  // namespace tw::pipeline
