// SPDX-License-Identifier: Apache-2.0
// Measures the units of a graph, each run alone.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <tw/graph/cuts.hpp>
#include <tw/graph/interpreter.hpp>
#include <utility>
#include <vector>

namespace tw::pipeline {

struct UnitCosts {
  double forward_s = 0;
  double backward_s = 0;
  double weights_s = 0;        ///< see ProfiledOperator
  double workspace_bytes = 0;  ///< see ProfiledOperator
};

/// The rank that measures each unit. All units of one form go to one rank, and the numbers of forms per rank differ by at most one.
std::vector<int> measuring_ranks(const std::vector<std::string>& forms, int ranks);

/// A graph cut into units, each with its own interpreter. Measured on the device of the inputs.
class MeasuredUnits {
 public:
  /// By unit, what decides how it is measured.
  struct Kinds {
    std::vector<std::string> forms;
    std::vector<uint8_t> has_halves;  ///< 1: the weights' half of its backward pass can run later

    static constexpr auto fields = std::tuple(&Kinds::forms, &Kinds::has_halves);
  };

  /// @param graph kept by reference. @param bind returns the tensor of a parameter or buffer, by name
  MeasuredUnits(const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind);

  const std::vector<graph::Piece>& pieces() const noexcept { return pieces_; }
  const Kinds& kinds() const noexcept { return kinds_; }
  /// Replaces the kinds by those of a rank that measures together with this one, whose slices of the same layers may have other sizes.
  void set_kinds(Kinds kinds) { kinds_ = std::move(kinds); }
  /// By unit, its operators and the gradients it computes, regardless of which values it reads: equal for units of equal cost.
  const std::vector<std::string>& forms() const noexcept { return kinds_.forms; }

  /// Whether the weights' half of the unit's backward pass can run later.
  bool has_products(size_t unit) const { return kinds_.has_halves[unit] != 0; }

  /// By unit, the bytes that a forward pass keeps for the backward pass, including its output.
  std::vector<double> saved_bytes(const std::vector<at::Tensor>& inputs) const;
  /// Costs by unit. Only `wanted` units are measured; of each form, all units are wanted or none. The result is the median cost of the unit's form
  /// over `repetitions` passes through the whole graph. Each pass measures every form once, each time at a different unit, so that caches are as cold
  /// as in a training step.
  std::vector<UnitCosts> costs(const std::vector<at::Tensor>& inputs, const std::vector<bool>& wanted, int repetitions) const;

 private:
  std::vector<at::Tensor> begin(const std::vector<at::Tensor>& inputs) const;
  std::vector<at::Tensor> inputs_of(size_t unit, const std::vector<at::Tensor>& values) const;
  void run(size_t unit, std::vector<at::Tensor>& values, int64_t rows) const;
  /// The arguments of a unit's backward pass.
  struct Backward {
    std::vector<at::Tensor> wanted;  // parameters, then inputs
    std::vector<at::Tensor> inputs = {};
    std::vector<at::Tensor> ends = {};
    std::vector<at::Tensor> cotangents = {};
  };
  Backward backward_of(size_t unit, const std::vector<at::Tensor>& values) const;
  /// The share of the unit's backward time that gradients of weights take, from 0 to 1.
  double weights_share(size_t unit, std::vector<at::Tensor>& values, int64_t rows, c10::Device device) const;
  /// Runs the unit and its backward pass, including the accumulation of parameter gradients.
  UnitCosts costs_of(size_t unit, std::vector<at::Tensor>& values, int64_t rows, c10::Device device) const;

  const graph::Graph& graph_;
  std::vector<graph::Piece> pieces_;
  Kinds kinds_;
  std::vector<graph::Interpreter> interpreters_;
  std::vector<std::vector<at::Tensor>> parameters_;  // trained parameters by unit
};

}  // namespace tw::pipeline
