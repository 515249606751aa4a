// SPDX-License-Identifier: Apache-2.0
// Tensor operations that can run for several layers at once, and their transposed Jacobians.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <tw/graph/graph.hpp>
#include <vector>

namespace tw::layer_parallel {

/// A tensor that a step takes or computes.
struct Value {
  std::vector<int64_t> sizes = {};  ///< of one layer
  bool stacked = false;             ///< differs from layer to layer: [n, sizes...]
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
  std::vector<graph::Argument> constants = {};  ///< arguments that are not tensors, in their order
  bool in_place = false;                        ///< nobody reads the input afterwards
};

/// Sums of cotangents, by value.
class Cotangents {
 public:
  /// @param targets by value, in place of a sum where defined. @param of_parameters whether those of parameters are wanted.
  Cotangents(const std::vector<Value>& values, std::vector<at::Tensor> targets, bool of_parameters)
      : values_(values), sums_(values.size()), targets_(std::move(targets)), of_parameters_(of_parameters) {}

  bool wants(size_t value) const { return values_[value].of_state || (of_parameters_ && values_[value].of_parameters); }
  /// Undefined where there is none.
  const at::Tensor& of(size_t value) const { return sums_[value]; }
  /// Adds factor * cotangent, summed over the dimensions along which the value was broadcast.
  void add(size_t value, at::Tensor cotangent, const at::Scalar& factor = 1);
  /// Adds a b, stacked matrices.
  void add_product(size_t value, const at::Tensor& a, const at::Tensor& b);

 private:
  const std::vector<Value>& values_;
  std::vector<at::Tensor> sums_;
  std::vector<at::Tensor> targets_;
  bool of_parameters_;
};

/// How an operation of LibTorch runs on stacks.
struct Rule {
  std::string_view name;
  bool keeps_inputs = false;  ///< transposed() reads them
  bool keeps_output = false;
  bool (*holds)(const Operation& op, const std::vector<Value>& values) = nullptr;  ///< whether it covers these arguments; null: any
  at::Tensor (*forward)(const Operation& op, const std::vector<Value>& values, const std::vector<at::Tensor>& tensors);
  /// Adds to the cotangents of the inputs what follows from the output's.
  void (*transposed)(const Operation& op, const std::vector<Value>& values, const std::vector<at::Tensor>& tensors, const at::Tensor& cotangent,
                     Cotangents& cotangents);
};

/// @param op such as "aten::add", with or without the final underscore of operations in place. @return null: none
const Rule* rule_of(std::string_view op);

}  // namespace tw::layer_parallel
