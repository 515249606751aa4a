// SPDX-License-Identifier: Apache-2.0
// Stacked states: views, and the arithmetic that solvers and propagators need.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <tw/parallel_in_time/propagator.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Whether both states have the same number of tensors, with equal dtypes and with equal shapes after the first `skipped` dimensions.
bool alike(const State& a, const State& b, size_t skipped = 0);

/// Returns the dtypes and shapes, such as "float64 [3], float32 [2, 2]".
std::string describe(const State& state);

/// Applies `f` to each component.
template <class F>
State each(const State& state, F&& f) {
  State result;
  result.reserve(state.size());
  for (const at::Tensor& tensor : state) result.push_back(f(tensor));
  return result;
}

/// State `i` of stacked states, as a view.
inline State row(const State& stacked, int64_t i) {
  return each(stacked, [&](const at::Tensor& t) { return t.select(0, i); });
}

/// The `count` states `begin`, `begin + spacing`, ... of stacked states; stacked, as a view.
inline State rows(const State& stacked, int64_t begin, int64_t count, int64_t spacing = 1) {
  if (count == 0) return each(stacked, [](const at::Tensor& t) { return t.narrow(0, 0, 0); });
  return each(stacked, [&](const at::Tensor& t) { return t.slice(0, begin, begin + (count - 1) * spacing + 1, spacing); });
}

/// Stacks several states.
State stack(const std::vector<State>& states);

/// Concatenates stacks of states.
State concatenate(const std::vector<State>& stacks);

/// `n` stacked zero states with the shapes and dtypes of the stacked `example`.
State zeros_like_rows(const State& example, int64_t n);

/// The state without autograd's graph.
inline State detached(const State& state) {
  return each(state, [](const at::Tensor& t) { return t.defined() ? t.detach() : t; });  // undefined tensors are reported elsewhere
}

inline State clone(const State& state) {
  return each(state, [](const at::Tensor& t) { return t.clone(at::MemoryFormat::Contiguous); });
}

inline void copy(const State& to, const State& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

/// to += factor * value
inline void add(const State& to, const State& value, double factor = 1) {
  for (size_t i = 0; i < to.size(); ++i) to[i].add_(value[i], factor);
}

inline State sum(const State& a, const State& b) {
  State result;
  for (size_t i = 0; i < a.size(); ++i) result.push_back(a[i].add(b[i]));
  return result;
}

inline State difference(const State& a, const State& b) {
  State result;
  for (size_t i = 0; i < a.size(); ++i) result.push_back(a[i].sub(b[i]));
  return result;
}

/// The states of points first, first + spacing, ...
struct Stored {
  State states;  ///< stacked
  int64_t first = 0;
  int64_t spacing = 1;

  /// The states at the `count` points `point`, `point + step`, ..., stacked, as a view. If count > 1, `step` must be a multiple of `spacing`.
  State at(int64_t point, int64_t count = 1, int64_t step = 1) const;
};

}  // namespace tw::layer_parallel
