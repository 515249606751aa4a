// SPDX-License-Identifier: Apache-2.0
// Typical parts of random modules: residuals, lists, splits, views, attention, embeddings, recurrent cells, in-place operators, buffers that a pass
// changes, tied weights, dropout of all kinds.
#pragma once
#include <torch/torch.h>

#include <functional>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/base/random.hpp>
#include <vector>

namespace tw::pipeline {

/// Building blocks of parts, and properties of the module that they set.
class RandomPartsBase : public torch::nn::Module {
 public:
  static constexpr int64_t length = 4;
  static constexpr int64_t width = 6;

  /// Draws random numbers: the reference is a pipeline of one rank.
  bool draws() const { return draws_; }
  /// Has running statistics or counters, whose values depend on the micro-batches.
  bool splits_matter() const { return splits_matter_; }

 protected:
  using Tensor = torch::Tensor;
  using Tensors = std::vector<Tensor>;
  struct Step {
    std::string name;
    std::function<Tensor(const Tensors& known)> run;  // inputs are [n, length, width] each
  };

  explicit RandomPartsBase(uint64_t seed) : numbers_(seed, 1) { torch::manual_seed(seed); }

  size_t some() { return known_ - 1 - numbers_.below(std::min<uint32_t>(static_cast<uint32_t>(known_), 3)); }
  std::string next_name() { return concat("part", steps_.size()); }
  std::shared_ptr<torch::nn::LinearImpl> linear(int64_t in, int64_t out) { return register_module(next_name(), torch::nn::Linear(in, out)); }

  CounterRng numbers_;
  std::vector<Step> steps_;
  size_t known_ = 2;
  bool draws_ = false;
  bool splits_matter_ = false;
};

class OrdinaryParts : public RandomPartsBase {
 protected:
  using RandomPartsBase::RandomPartsBase;

  Step dense() {
    const auto layer = linear(width, width);
    const uint32_t kind = numbers_.below(4);
    return {"dense", [layer, kind, a = some()](const Tensors& known) {
              const Tensor y = layer->forward(known[a]);
              return kind == 0 ? y.tanh() : kind == 1 ? y.relu() : kind == 2 ? y.sigmoid() : torch::gelu(y);
            }};
  }
  Step residual() {
    return {"residual", [a = some(), b = some()](const Tensors& known) { return torch::tanh(known[a] + known[b]); }};
  }
  Step gate() {
    const auto layer = linear(width, width);
    return {"gate", [layer, a = some(), b = some()](const Tensors& known) {
              return known[a] * layer->forward(known[b].mean(1, true)).sigmoid();  // [n, 1, width] for all positions
            }};
  }
  Step chunks() {
    return {"chunks", [a = some()](const Tensors& known) {
              const Tensors parts = known[a].chunk(3, -1);
              return torch::cat({parts[2].tanh(), parts[0] * 0.5, parts[1].sin()}, -1);
            }};
  }
  /// Passes a non-contiguous tensor on.
  Step turned() {
    const auto layer = linear(length, length);
    return {"turned", [layer, a = some()](const Tensors& known) { return layer->forward(known[a].transpose(1, 2)).tanh().transpose(1, 2); }};
  }
  Step attention() {
    const auto layer = linear(width, 3 * width);
    const bool drops = numbers_.below(4) == 0;
    draws_ = draws_ || drops;
    return {"attention", [this, layer, drops, a = some()](const Tensors& known) {
              const Tensors qkv =
                  layer->forward(known[a]).view({-1, length, 3, 2, width / 2}).permute({2, 0, 3, 1, 4}).unbind(0);  // [n, heads, length, ...]
              const Tensor y = torch::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, drops && is_training() ? 0.3 : 0.0);
              return y.transpose(1, 2).reshape({-1, length, width});
            }};
  }
  Step heads() {
    const bool drops = numbers_.below(3) == 0;
    draws_ = draws_ || drops;
    const auto layer =
        register_module(next_name(), torch::nn::MultiheadAttention(torch::nn::MultiheadAttentionOptions(width, 2).dropout(drops ? 0.25 : 0.0)));
    return {"heads", [layer, a = some()](const Tensors& known) {
              const Tensor by_time = known[a].transpose(0, 1);
              return std::get<0>(layer->forward(by_time, by_time, by_time)).transpose(0, 1).tanh();
            }};
  }
  /// A recurrent cell that writes its steps into a preallocated tensor.
  Step into_zeros() {
    const auto cell = register_module(next_name(), torch::nn::GRUCell(width, width));
    return {"into_zeros", [cell, a = some()](const Tensors& known) {
              const Tensor& x = known[a];
              Tensor h = torch::zeros({x.size(0), width}, x.options());
              const Tensor out = torch::zeros({x.size(0), length, width}, x.options());
              for (int64_t t = 0; t < length; ++t) {
                h = cell->forward(x.select(1, t), h);
                out.select(1, t).copy_(h);
              }
              return out;
            }};
  }
  Step by_index() {
    const auto cell = register_module(next_name(), torch::nn::RNNCell(width, width));
    return {"by_index", [cell, a = some()](const Tensors& known) {
              using torch::indexing::Slice;
              const Tensor& x = known[a];
              Tensor h = torch::zeros({x.size(0), width}, x.options());
              Tensor out = torch::empty_like(x);
              for (int64_t t = length; t-- > 0;) {
                h = cell->forward(x.index({Slice(), t}), h);
                out.index_put_({Slice(), t}, h);
              }
              return out;
            }};
  }
  Step listed() {
    return {"listed", [a = some(), b = some()](const Tensors& known) {
              Tensors rows = known[a].unbind(1);
              const Tensors others = known[b].unbind(1);
              for (size_t i = 1; i < rows.size(); ++i) rows[i] = torch::tanh(rows[i] + 0.5 * rows[i - 1] - others[i]);
              return torch::stack(rows, 1);
            }};
  }
  Step gru() {
    const bool drops = numbers_.below(3) == 0;
    draws_ = draws_ || drops;
    const auto layer =
        register_module(next_name(), torch::nn::GRU(torch::nn::GRUOptions(width, width).num_layers(2).dropout(drops ? 0.3 : 0.0).batch_first(true)));
    return {"gru", [layer, a = some()](const Tensors& known) { return std::get<0>(layer->forward(known[a])); }};
  }
  Step lstm() {
    const bool drops = numbers_.below(3) == 0;
    draws_ = draws_ || drops;
    const auto layer = register_module(
        next_name(), torch::nn::LSTM(torch::nn::LSTMOptions(width, width / 2).num_layers(2).dropout(drops ? 0.3 : 0.0).bidirectional(true)));
    return {"lstm", [layer, a = some()](const Tensors& known) { return std::get<0>(layer->forward(known[a].transpose(0, 1))).transpose(0, 1); }};
  }
  Step in_place() {
    return {"in_place", [a = some(), b = some()](const Tensors& known) {
              Tensor y = known[a] * 0.5;
              y.add_(known[b]).mul_(1.5);
              y.sub_(0.1);
              return y.tanh();
            }};
  }
  Step part_in_place() {
    return {"part_in_place", [a = some()](const Tensors& known) {
              const Tensor y = known[a].clone();
              y.slice(1, 0, 2).mul_(0.5);
              y.select(2, 1).add_(1);
              return y.sin();
            }};
  }
  /// Changes a tensor that was read before and is read again.
  Step read_and_changed() {
    return {"read_and_changed", [a = some()](const Tensors& known) {
              const Tensor y = known[a] * 2;
              const Tensor view = y.narrow(1, 0, 2);
              const Tensor before = y + known[a];
              view.add_(0.25);
              return torch::tanh(before - y + view.sum(1, true));
            }};
  }
  Step counter() {
    splits_matter_ = true;
    register_buffer(next_name(), torch::zeros({}, torch::kDouble));
    return {"counter", [this, name = next_name(), a = some()](const Tensors& known) {
              Tensor count = named_buffers()[name];
              if (is_training()) count.add_(1);
              return known[a] * (1 / (1 + count));
            }};
  }
  Step running_mean() {
    splits_matter_ = true;
    register_buffer(next_name(), torch::zeros({2, width}, torch::kDouble));
    return {"running_mean", [this, name = next_name(), a = some()](const Tensors& known) {
              const Tensor means = named_buffers()[name];
              if (is_training()) means.select(0, 1).mul_(0.9).add_(known[a].detach().flatten(0, 1).mean(0), 0.1);
              return torch::tanh(known[a] - means.select(0, 1).detach().clone());
            }};
  }
  Step tied() {
    const auto layer = linear(width, width);
    return {"tied", [layer, a = some()](const Tensors& known) { return layer->forward(known[a]).tanh().matmul(layer->weight).sin(); }};
  }
  Step batch_norm() {
    splits_matter_ = true;
    const auto layer = register_module(next_name(), torch::nn::BatchNorm1d(width));
    return {"batch_norm", [layer, a = some()](const Tensors& known) { return layer->forward(known[a].transpose(1, 2)).transpose(1, 2); }};
  }
  Step layer_norm() {
    const auto layer = register_module(next_name(), torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    return {"layer_norm", [layer, a = some()](const Tensors& known) { return layer->forward(known[a]); }};
  }
  Step dropout() {
    draws_ = true;
    const uint32_t kind = numbers_.below(7);
    const auto rrelu = register_module(next_name(), torch::nn::RReLU());
    return {concat("dropout", kind), [this, rrelu, kind, a = some()](const Tensors& known) -> Tensor {
              const bool on = is_training();
              const Tensor& x = known[a];
              Tensor own = x * 0.9;
              switch (kind) {
                case 0: return torch::dropout(x, 0.3, on);
                case 1: return torch::dropout_(own, 0.3, on);
                case 2: return torch::feature_dropout(x, 0.4, on);
                case 3: return torch::alpha_dropout(x, 0.2, on);
                case 4: return rrelu->forward(x);
                case 5: return on ? x * torch::rand_like(x) : x * 0.5;
                default: return on ? x + 0.1 * torch::randn({x.size(0), 1, width}, x.options()) : x;
              }
            }};
  }
  Step likes() {
    return {"likes", [a = some(), b = some()](const Tensors& known) {
              const Tensor y = torch::empty_like(known[a]).copy_(known[b]);
              return (y + torch::ones_like(known[a]) - torch::full_like(y, 0.5)).tanh() + torch::zeros_like(y);
            }};
  }
  Step convolution() {
    const auto layer = register_module(next_name(), torch::nn::Conv1d(torch::nn::Conv1dOptions(width, width, 3).padding(1)));
    return {"convolution",
            [layer, a = some()](const Tensors& known) { return layer->forward(known[a].permute({0, 2, 1})).relu().permute({0, 2, 1}); }};
  }
  /// Merges all positions of all rows into one dimension.
  Step flat_rows() {
    const auto layer = linear(width, width);
    const bool drops = numbers_.below(3) == 0;
    draws_ = draws_ || drops;
    return {"flat_rows", [this, layer, drops, a = some()](const Tensors& known) {
              const Tensor flat = layer->forward(known[a].reshape({-1, width}));
              return torch::dropout(flat, 0.2, drops && is_training()).view({-1, length, width}).tanh();
            }};
  }
  Step pooled() {
    return {"pooled", [a = some(), b = some()](const Tensors& known) {
              return std::get<0>(known[a].max(1, true)).expand({-1, length, -1}) * known[b].softmax(1) + known[b].cumsum(1) * 0.1;
            }};
  }
  Step detached() {
    return {"detached", [a = some(), b = some()](const Tensors& known) {
              Tensor fixed;
              {
                const torch::NoGradGuard no_gradients;
                fixed = known[b].tanh();
              }
              return known[a] * fixed + known[b].detach();
            }};
  }
  Step guarded() {
    return {"guarded", [a = some()](const Tensors& known) {
              TORCH_CHECK(torch::isfinite(known[a]).all().item<bool>(), "not finite");
              return known[a].clamp(-2, 2);
            }};
  }
  Step masked() {
    register_buffer(next_name(), torch::ones({length, length}).tril());
    return {"masked", [this, name = next_name(), a = some(), b = some()](const Tensors& known) {
              const Tensor scores = known[a].matmul(known[b].transpose(1, 2)).masked_fill(named_buffers()[name] == 0, -1e9).softmax(-1);
              return scores.matmul(known[a]);
            }};
  }
  /// A view that depends on strides, of a tensor transposed twice.
  Step strided_view() {
    const auto layer = linear(width, width);
    return {"strided_view", [layer, a = some()](const Tensors& known) {
              const Tensor turned = layer->forward(known[a].transpose(0, 1).contiguous()).tanh();  // [length, n, width]
              const Tensor by_row = turned.transpose(0, 1).sin();                                  // [n, length, width], time-major in memory
              return by_row.transpose(0, 1).view({-1, width}).view({length, -1, width}).transpose(0, 1);
            }};
  }
};

}  // namespace tw::pipeline
