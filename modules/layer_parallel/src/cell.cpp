// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_parallel/cell.hpp>

#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <utility>

namespace tw::layer_parallel {
namespace {

using at::Tensor;

// W_hh h + b_hh
Tensor product(const StateWeights& weights, const Tensor& h) {
  const Tensor rows = h.reshape({-1, h.size(-1)});
  const Tensor p = weights.bias.defined() ? at::addmm(weights.bias, rows, weights.weight.t()) : rows.matmul(weights.weight.t());
  auto shape = h.sizes().vec();
  shape.back() = p.size(1);
  return p.view(shape);
}

/// A gate z = sigmoid(q) over a span of dt: `a` is the share of the old state that stays, `s` the factor of new input relative to one step. The other
/// two are their derivatives by q.
struct Decay {
  Tensor a;
  Tensor s;
  Tensor a_by_q;
  Tensor s_by_q;
};

Tensor times_dt(const Tensor& tensor, const Span& span) { return span.of_rows.defined() ? tensor * span.of_rows : tensor * span.dt; }

Decay decay_of(const Tensor& z, const Span& span) {
  const Tensor rest = 1 - z;
  if (!span.coarse) return {z, {}, z * rest, {}};
  if (span.how == CoarseCell::implicit) {
    const Tensor a = (times_dt(rest, span) + 1).reciprocal();
    const Tensor a_by_q = times_dt(a * a * z * rest, span);
    return {a, times_dt(a, span), a_by_q, times_dt(a_by_q, span)};
  }
  // Where 1 - z = 0, the geometric sum has dt terms of 1.
  const Tensor a = span.of_rows.defined() ? at::pow(z, span.of_rows) : at::pow(z, span.dt);
  const Tensor s = at::where(rest > 0, (1 - a) / rest, times_dt(at::ones_like(z), span));
  const Tensor dt_a = times_dt(a, span);
  return {a, s, dt_a * rest, s * z - dt_a};
}

// Rows over which no time passes keep their state.
Tensor where_time_passes(const Span& span, const Tensor& then, const Tensor& otherwise) {
  return span.of_rows.defined() ? at::where(span.of_rows > 0, then, otherwise) : then;
}

// The share of its state that an rnn forgets; a fine step forgets all of it.
double forgets(const Span& span) { return span.coarse && span.how == CoarseCell::implicit ? span.dt / (1 + span.dt) : 1; }

Tensor share_of_new(const Span& span, const Tensor& like) {
  if (!span.coarse || span.how != CoarseCell::implicit || !span.of_rows.defined()) return at::full({}, forgets(span), like.options());
  return span.of_rows / (span.of_rows + 1);
}

/// Derivatives of a step's results by its states. Result i depends on state j by diag(direct[i][j]), and on h by the sum over the gates g of
/// diag(by_gate[i][g]) W_g. Undefined tensors are zero.
struct Derivatives {
  std::vector<State> by_gate;
  std::vector<State> direct;
};

Derivatives derivatives_of(Cell cell, const State& kept, const Span& span) {
  switch (cell) {
    case Cell::rnn: {
      const Tensor& n = kept[1];
      const Tensor share = share_of_new(span, n);
      return {{{share * (1 - n * n)}}, {{(1 - share).expand_as(n)}}};
    }
    case Cell::gru: {
      const Tensor &h = kept[0], &r = kept[1], &z = kept[2], &p_n = kept[3], &n = kept[4];
      const Decay decay = decay_of(z, span);
      const Tensor by_n = (1 - decay.a) * (1 - n * n);
      return {{{by_n * p_n * r * (1 - r), (h - n) * decay.a_by_q, by_n * r}}, {{decay.a}}};
    }
    case Cell::lstm: break;
  }
  const Tensor &c = kept[1], &i = kept[2], &f = kept[3], &g = kept[4], &o = kept[5], &t = kept[6];
  const Decay decay = decay_of(f, span);
  const Tensor by_in = span.coarse ? decay.s : at::ones_like(i);
  Tensor by_f = c * decay.a_by_q;
  if (span.coarse) by_f = by_f.addcmul(i * g, decay.s_by_q);
  const State of_c{by_in * g * i * (1 - i), by_f, by_in * i * (1 - g * g)};
  const Tensor by_c = o * (1 - t * t);
  return {{{by_c * of_c[0], by_c * of_c[1], by_c * of_c[2], t * o * (1 - o)}, {of_c[0], of_c[1], of_c[2], Tensor()}},
          {{Tensor(), by_c * decay.a}, {Tensor(), decay.a}}};
}

// Jacobians consist of blocks. Block (i, j) is the derivative of result i by state j: a matrix [..., hidden, hidden], or its diagonal.
Tensor by_state(const Tensor& weight, const State& by_gate, const Tensor& direct, JacobianKind kind) {
  const int64_t width = weight.size(1);
  Tensor result;
  for (size_t gate = 0; gate < by_gate.size(); ++gate) {
    if (!by_gate[gate].defined()) continue;
    const Tensor of_gate = weight.narrow(0, static_cast<int64_t>(gate) * width, width);
    const Tensor rows = kind == JacobianKind::full ? of_gate : of_gate.diagonal();
    const Tensor scale = kind == JacobianKind::full ? by_gate[gate].unsqueeze(-1) : by_gate[gate];
    result = result.defined() ? result.addcmul_(scale, rows) : scale * rows;
  }
  if (direct.defined()) (kind == JacobianKind::full ? result.diagonal(0, -2, -1) : result).add_(direct);
  return result;
}

}  // namespace

int64_t gates_of(Cell cell) { return cell == Cell::rnn ? 1 : cell == Cell::gru ? 3 : 4; }
int64_t states_of(Cell cell) { return cell == Cell::lstm ? 2 : 1; }

CellStep step(const StateWeights& weights, const State& from, const Tensor& input, const Span& span) {
  const Tensor& h = from[0];
  const Tensor p = product(weights, h);
  switch (weights.cell) {
    case Cell::rnn: {
      const Tensor n = (input + p).tanh_();
      const Tensor to = n.lerp(h, 1 - share_of_new(span, h));
      return {{where_time_passes(span, to, h)}, {h, n}};
    }
    case Cell::gru: {
      const int64_t width = h.size(-1);
      const Tensor gates = (input.narrow(-1, 0, 2 * width) + p.narrow(-1, 0, 2 * width)).sigmoid_();
      const Tensor r = gates.narrow(-1, 0, width);
      const Tensor z = gates.narrow(-1, width, width);
      const Tensor p_n = p.narrow(-1, 2 * width, width);
      const Tensor n = input.narrow(-1, 2 * width, width).addcmul(r, p_n).tanh_();
      const Tensor a = span.coarse ? decay_of(z, span).a : z;
      return {{where_time_passes(span, n.lerp(h, a), h)}, {h, r, z, p_n, n}};
    }
    case Cell::lstm: break;
  }
  const std::vector<Tensor> gates = (input + p).chunk(4, -1);
  const Tensor& c = from[1];
  const Tensor i = gates[0].sigmoid();
  const Tensor f = gates[1].sigmoid();
  const Tensor g = gates[2].tanh();
  const Tensor o = gates[3].sigmoid();
  const Decay decay = span.coarse ? decay_of(f, span) : Decay{f, {}, {}, {}};
  const Tensor into = span.coarse ? i * g * decay.s : i * g;
  const Tensor next = into.addcmul(decay.a, c);
  const Tensor t = next.tanh();
  return {{where_time_passes(span, o * t, h), where_time_passes(span, next, c)}, {h, c, i, f, g, o, t}};
}

CellGradient transposed(const StateWeights& weights, const State& kept, const State& cotangent, const Span& span) {
  const Tensor zero = at::zeros({}, cotangent[0].options());
  State passed;  // cotangents of rows over which no time passes
  State into;    // cotangents of all other rows
  for (const Tensor& of : cotangent) {
    into.push_back(where_time_passes(span, of, zero));
    if (span.of_rows.defined()) passed.push_back(of - into.back());
  }
  const Tensor& by_h = into[0];
  CellGradient result;
  switch (weights.cell) {
    case Cell::rnn: {
      const Tensor& n = kept[1];
      const Tensor share = share_of_new(span, by_h);
      result.of_input = result.of_product = by_h * share * (1 - n * n);
      result.of_state = {by_h * (1 - share)};
      break;
    }
    case Cell::gru: {
      const Tensor &h = kept[0], &r = kept[1], &z = kept[2], &p_n = kept[3], &n = kept[4];
      const Decay decay = decay_of(z, span);
      const Tensor by_q = by_h * (h - n) * decay.a_by_q;
      const Tensor by_n = (by_h - by_h * decay.a) * (1 - n * n);
      const Tensor by_r = by_n * p_n * r * (1 - r);
      result.of_input = at::cat({by_r, by_q, by_n}, -1);
      result.of_product = at::cat({by_r, by_q, by_n * r}, -1);
      result.of_state = {by_h * decay.a};
      break;
    }
    case Cell::lstm: {
      const Tensor &c = kept[1], &i = kept[2], &f = kept[3], &g = kept[4], &o = kept[5], &t = kept[6];
      const Decay decay = decay_of(f, span);
      const Tensor by_c = into[1].addcmul(by_h * o, 1 - t * t);
      const Tensor by_in = span.coarse ? by_c * decay.s : by_c;  // by the product i g
      Tensor by_f = by_c * c * decay.a_by_q;
      if (span.coarse) by_f = by_f.addcmul(by_c * i * g, decay.s_by_q);
      result.of_input = result.of_product = at::cat({by_in * g * i * (1 - i), by_f, by_in * i * (1 - g * g), by_h * t * o * (1 - o)}, -1);
      result.of_state = {Tensor(), by_c * decay.a};
      break;
    }
  }
  const int64_t wide = result.of_product.size(-1);
  const Tensor through = result.of_product.reshape({-1, wide}).matmul(weights.weight).view(by_h.sizes());
  Tensor& of_h = result.of_state[0];
  of_h = of_h.defined() ? of_h.add(through) : through;
  for (size_t component = 0; component < passed.size(); ++component) result.of_state[component] = result.of_state[component].add(passed[component]);
  return result;
}

Tensor jacobian(const StateWeights& weights, const State& kept, const Span& span, JacobianKind kind) {
  const Derivatives derivatives = derivatives_of(weights.cell, kept, span);
  const bool full = kind == JacobianKind::full;
  const int64_t width = kept[0].size(-1);
  const int64_t count = states_of(weights.cell);
  Tensor result = by_state(weights.weight, derivatives.by_gate[0], derivatives.direct[0][0], kind);
  if (count > 1) {
    auto shape = kept[0].sizes().vec();
    const Tensor of_h = result;
    shape.pop_back();
    shape.insert(shape.end(), {count, full ? width : count, full ? count : width});
    if (full) shape.push_back(width);
    result = at::zeros(shape, of_h.options());  // [..., i, row, j, column], or [..., i, j, unit]
    const auto block = [&](int64_t i, int64_t j) { return result.select(full ? -4 : -3, i).select(-2, j); };
    block(0, 0).copy_(of_h);
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      if (i > 0) block(i, 0).copy_(by_state(weights.weight, derivatives.by_gate[at], derivatives.direct[at][0], kind));
      const Tensor of_c = block(i, 1);
      (full ? of_c.diagonal(0, -2, -1) : of_c).copy_(derivatives.direct[at][1]);
    }
    if (full) result = result.flatten(-4, -3).flatten(-2, -1);
  } else if (!full) {
    result = result.unsqueeze(-2).unsqueeze(-2);
  }
  if (!span.of_rows.defined()) return result;
  const int64_t size = full ? count * width : count;
  const Tensor same = full ? at::eye(size, result.options()) : at::eye(size, result.options()).unsqueeze(-1);
  const Tensor passes = full ? span.of_rows.unsqueeze(-1) : span.of_rows.unsqueeze(-1).unsqueeze(-1);
  return at::where(passes > 0, result, same);
}

}  // namespace tw::layer_parallel
