// SPDX-License-Identifier: Apache-2.0
// Tensor operations that can run for several layers at once, and their transposed Jacobians.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <tw/graph/graph.hpp>
#include <vector>

namespace tw::layer_parallel {

/// A tensor that a step reads or computes.
struct Value {
  std::vector<int64_t> sizes = {};  ///< shape for one layer
  bool stacked = false;             ///< differs between layers: [n, sizes...]
  bool of_state = false;            ///< depends on the state
  bool of_parameters = false;       ///< depends on parameters
  bool kept = false;                ///< a transposed Jacobian reads it
};

struct Rule;

/// One operation of a step. Values are indices.
struct Operation {
  const Rule* rule = nullptr;
  std::vector<size_t> inputs = {};
  size_t output = 0;
  std::vector<graph::Argument> constants = {};  ///< arguments other than tensors, in order
  bool in_place = false;                        ///< no later operation reads the input
};

/// Sums of cotangents, by value.
class Cotangents {
 public:
  /// @param targets by value; where defined, cotangents are added here instead of to a new sum. @param of_parameters whether cotangents of parameters
  /// are wanted.
  Cotangents(const std::vector<Value>& values, std::vector<at::Tensor> targets, bool of_parameters)
      : values_(values), sums_(values.size()), targets_(std::move(targets)), of_parameters_(of_parameters) {}

  bool wants(size_t value) const { return values_[value].of_state || (of_parameters_ && values_[value].of_parameters); }
  /// Undefined if there is no cotangent.
  const at::Tensor& of(size_t value) const { return sums_[value]; }
  /// Adds factor * cotangent, summed over the dimensions in which the value was broadcast.
  void add(size_t value, at::Tensor cotangent, const at::Scalar& factor = 1);
  /// Adds the product of the stacked matrices a and b.
  void add_product(size_t value, const at::Tensor& a, const at::Tensor& b);

 private:
  const std::vector<Value>& values_;
  std::vector<at::Tensor> sums_;
  std::vector<at::Tensor> targets_;
  bool of_parameters_;
};

/// How one LibTorch operation runs on stacked tensors.
struct Rule {
  std::string_view name;
  bool keeps_inputs = false;  ///< transposed() reads the inputs
  bool keeps_output = false;
  bool (*holds)(const Operation& op, const std::vector<Value>& values) = nullptr;  ///< whether the rule covers these arguments; null: any
  at::Tensor (*forward)(const Operation& op, const std::vector<Value>& values, const std::vector<at::Tensor>& tensors);
  /// Adds to the cotangents of the inputs, given the output's cotangent.
  void (*transposed)(const Operation& op, const std::vector<Value>& values, const std::vector<at::Tensor>& tensors, const at::Tensor& cotangent,
                     Cotangents& cotangents);
};

/// @param op such as "aten::add"; a trailing underscore (in place) is ignored. @return null if there is no rule
const Rule* rule_of(std::string_view op);

}  // namespace tw::layer_parallel
