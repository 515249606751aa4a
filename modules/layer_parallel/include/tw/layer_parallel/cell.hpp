// SPDX-License-Identifier: Apache-2.0
// Steps of recurrent cells and their Jacobians, for any number of independent states at once. Local.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/parallel_in_time/propagator.hpp>

namespace tw::layer_parallel {

/// The cells of torch::nn. x = W_ih * input + b_ih is the input product of a step, and p = W_hh * h + b_hh the state product. Each gate uses its own
/// rows of both.
enum class Cell {
  rnn,   ///< h' = tanh(x + p)
  gru,   ///< r, z = sigmoid(x + p), n = tanh(x_n + r * p_n), h' = z * h + (1 - z) * n
  lstm,  ///< i, f, o = sigmoid(x + p), g = tanh(x + p), c' = f * c + i * g, h' = o * tanh(c')
};

/// How a step of a coarse level spans dt time steps. It uses the mean of their input products. Level 0 uses the cell itself.
enum class CoarseCell {
  /// The cell applied dt times with its initial gate values; for dt = 1 the cell itself.
  /// h' = z^dt * h + (1 - z^dt) * n, c' = f^dt * c + (1 + f + ... + f^(dt-1)) * i * g
  frozen_gates,
  /// Backward Euler: h' = (h + dt * (1-z) * n) / (1 + dt * (1-z)), c' = (c + dt * i * g) / (1 + dt * (1-f)), rnn h' = (h + dt * n) / (1 + dt).
  /// Ref: Moon & Cyr 2022, arXiv 2203.04738
  implicit,
};

/// Number of rows of W_hh per unit of the state.
int64_t gates_of(Cell cell);
/// Number of tensors of the state: h, or h and c.
int64_t states_of(Cell cell);

struct StateWeights {
  Cell cell = Cell::gru;
  at::Tensor weight;  ///< W_hh [gates * hidden, hidden]
  at::Tensor bias;    ///< b_hh [gates * hidden]; undefined: none
};

/// The number of time steps that a step spans.
struct Span {
  double dt = 1;
  bool coarse = false;  ///< false: the cell itself, without `how`
  CoarseCell how = CoarseCell::frozen_gates;
  at::Tensor of_rows = {};  ///< replaces dt by a number for each state: whole numbers, [..., 1]; 0 keeps the state. Undefined: dt for all states
};

struct CellStep {
  State to;
  State kept;  ///< values that transposed() and jacobian() need, each [..., hidden]
};
/// Makes a step. @param from the state, tensors [..., hidden] @param input the input product, [..., gates * hidden]
CellStep step(const StateWeights& weights, const State& from, const at::Tensor& input, const Span& span);

/// Cotangents of the inputs of a step.
struct CellGradient {
  State of_state;
  at::Tensor of_input;    ///< cotangent of the input product x
  at::Tensor of_product;  ///< cotangent of the state product p; the same tensor as of_input, except for a gru
};
/// Applies the transposed Jacobian of a step. @param kept from step() @param cotangent the cotangent of the step's result
CellGradient transposed(const StateWeights& weights, const State& kept, const State& cotangent, const Span& span);
/// The Jacobian of a step with respect to its initial state, in the shape that JacobianKind defines; S is states_of(cell) * hidden.
at::Tensor jacobian(const StateWeights& weights, const State& kept, const Span& span, JacobianKind kind);

}  // namespace tw::layer_parallel
