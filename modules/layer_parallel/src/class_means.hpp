// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/layer_parallel/propagator.hpp>

namespace tw::layer_parallel {

/// Running means of the states of samples, by the class of the sample. Local; which classes are known is the same on all ranks that are given the
/// same classes.
class ClassMeans {
 public:
  /// Whether each class was seen before, with states of this shape. @param like a state [n, ...] @param classes int64 [n]
  bool know(const State& like, const at::Tensor& classes) const;
  /// Stacked: for each sample the means of its class, [points, n, ...]. Of classes that are known.
  State of(const at::Tensor& classes) const;
  /// @param states stacked [points, n, ...]
  void add(const State& states, const at::Tensor& classes);

 private:
  at::Tensor seen_;  // bool [classes]
  State means_;      // [classes, points, ...]
};

}  // namespace tw::layer_parallel
