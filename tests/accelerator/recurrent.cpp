// SPDX-License-Identifier: Apache-2.0
#include "recurrent.hpp"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace tw::testing::accelerator {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

Tensor plus(const Tensor& gates, const MaybeTensor& bias) { return bias && bias->defined() ? gates + *bias : gates; }

// Cotangents through an activation, given its output y.
Tensor through_sigmoid(const Tensor& cotangent, const Tensor& y) { return cotangent * y * (1 - y); }
Tensor through_tanh(const Tensor& cotangent, const Tensor& y) { return cotangent * (1 - y * y); }

Tensor bias_of(const Tensor& gates, bool has_bias) { return has_bias ? gates.sum(0) : Tensor(); }

// Workspace: the gates i, f, g, o.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx, const MaybeTensor& input_bias,
                                             const MaybeTensor& hidden_bias) {
  const auto sums = (plus(input_gates, input_bias) + plus(hidden_gates, hidden_bias)).chunk(4, 1);
  const Tensor i = sums[0].sigmoid();
  const Tensor f = sums[1].sigmoid();
  const Tensor g = sums[2].tanh();
  const Tensor o = sums[3].sigmoid();
  const Tensor cy = f * cx + i * g;
  return {o * cy.tanh(), cy, at::cat({i, f, g, o}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const MaybeTensor& grad_hy, const MaybeTensor& grad_cy, const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace, bool has_bias) {
  const auto gates = workspace.chunk(4, 1);
  const Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
  const Tensor y = cy.tanh();
  const Tensor of_hy = grad_hy && grad_hy->defined() ? *grad_hy : at::zeros_like(cy);
  Tensor of_cy = through_tanh(of_hy * o, y);
  if (grad_cy && grad_cy->defined()) of_cy = of_cy + *grad_cy;
  const Tensor of_gates =
      at::cat({through_sigmoid(of_cy * g, i), through_sigmoid(of_cy * cx, f), through_tanh(of_cy * i, g), through_sigmoid(of_hy * y, o)}, 1);
  return {of_gates, of_cy * f, bias_of(of_gates, has_bias)};
}

// Workspace: the gates r, z, n, the state, and the factor of r.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx, const MaybeTensor& input_bias,
                                    const MaybeTensor& hidden_bias) {
  const auto input = plus(input_gates, input_bias).chunk(3, 1);
  const auto hidden = plus(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor r = (input[0] + hidden[0]).sigmoid();
  const Tensor z = (input[1] + hidden[1]).sigmoid();
  const Tensor n = (input[2] + r * hidden[2]).tanh();
  return {(hx - n) * z + n, at::cat({r, z, n, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace, bool has_bias) {
  const auto kept = workspace.chunk(5, 1);
  const Tensor &r = kept[0], &z = kept[1], &n = kept[2], &hx = kept[3], &hidden = kept[4];
  const Tensor of_n = through_tanh(grad_hy * (1 - z), n);
  const Tensor of_z = through_sigmoid(grad_hy * (hx - n), z);
  const Tensor of_r = through_sigmoid(of_n * hidden, r);
  const Tensor of_input = at::cat({of_r, of_z, of_n}, 1);
  const Tensor of_hidden = at::cat({of_r, of_z, of_n * r}, 1);
  return {of_input, of_hidden, grad_hy * z, bias_of(of_input, has_bias), bias_of(of_hidden, has_bias)};
}

}  // namespace

void register_recurrent_cells(torch::Library& aten) {
  aten.impl("_thnn_fused_lstm_cell", lstm_cell);
  aten.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  aten.impl("_thnn_fused_gru_cell", gru_cell);
  aten.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace tw::testing::accelerator
