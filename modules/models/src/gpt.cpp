// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/init.h>

#include <cmath>
#include <tw/base/contract.hpp>
#include <tw/models/gpt.hpp>

namespace tw::models {

GptBranchImpl::GptBranchImpl(const GptOptions& options) : heads_(options.heads) {
  const int64_t width = options.width;
  norm1_ = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  attention_ = register_module("attention", torch::nn::Linear(width, 3 * width));
  attention_output_ = register_module("attended", torch::nn::Linear(width, width));
  norm2_ = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  wide_ = register_module("wide", torch::nn::Linear(width, 4 * width));
  narrow_ = register_module("narrow", torch::nn::Linear(4 * width, width));
  dropout_ = register_module("dropout", torch::nn::Dropout(options.dropout));
  const double last = 0.02 / std::sqrt(2.0 * static_cast<double>(options.blocks));
  for (const auto& linear : {attention_, attention_output_, wide_, narrow_}) {
    torch::nn::init::normal_(linear->weight, 0, linear.get() == attention_output_.get() || linear.get() == narrow_.get() ? last : 0.02);
    torch::nn::init::zeros_(linear->bias);
  }
}

torch::Tensor GptBranchImpl::attention(const torch::Tensor& x) {
  const int64_t n = x.size(0);
  const int64_t length = x.size(1);
  const int64_t width = x.size(2);
  const auto parts =
      attention_(norm1_(x)).view({n, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4}).unbind(0);  // [n, heads, length, ...]
  const torch::Tensor attended = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, /*is_causal=*/true);
  return dropout_(attention_output_(attended.transpose(1, 2).reshape({n, length, width})));
}

torch::Tensor GptBranchImpl::mlp(const torch::Tensor& x) { return dropout_(narrow_(at::gelu(wide_(norm2_(x))))); }

torch::Tensor GptBranchImpl::forward(const torch::Tensor& x) {
  const torch::Tensor attended = attention(x);
  return attended + mlp(x + attended);
}

GptOpeningImpl::GptOpeningImpl(const GptOptions& options)
    : token_(register_module("token", torch::nn::Embedding(options.vocabulary, options.width))),
      place_(register_module("place", torch::nn::Embedding(options.context, options.width))) {
  torch::nn::init::normal_(token_->weight, 0, 0.02);
  torch::nn::init::normal_(place_->weight, 0, 0.02);
}

torch::Tensor GptOpeningImpl::forward(const torch::Tensor& tokens) { return token_(tokens) + place_(at::arange(tokens.size(1), tokens.options())); }

torch::nn::Sequential gpt_closing(const GptOptions& options) {
  return torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width})),
                               torch::nn::Linear(options.width, options.vocabulary));
}

GptImpl::GptImpl(const GptOptions& options) : options_(options) {
  TW_EXPECTS(options.vocabulary > 0 && options.context > 0 && options.blocks > 0, "GptOptions: vocabulary, context and blocks must be at least 1");
  TW_EXPECTS(options.heads > 0 && options.width > 0 && options.width % options.heads == 0,
             "GptOptions: width must be a positive multiple of heads, got width ", options.width, " and ", options.heads, " heads");
  token_ = register_module("token", torch::nn::Embedding(options.vocabulary, options.width));
  place_ = register_module("place", torch::nn::Embedding(options.context, options.width));
  dropout_ = register_module("dropout", torch::nn::Dropout(options.dropout));
  blocks_ = register_module("blocks", torch::nn::ModuleList());
  for (int64_t i = 0; i < options.blocks; ++i) blocks_->push_back(GptBranch(options));
  norm_ = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width})));
  torch::nn::init::normal_(token_->weight, 0, 0.02);
  torch::nn::init::normal_(place_->weight, 0, 0.02);
}

torch::Tensor GptImpl::forward(const torch::Tensor& tokens) {
  TW_EXPECTS(tokens.dim() == 2 && tokens.size(1) <= options_.context, "Gpt expects tokens [n, length] with length at most ", options_.context,
             ", got ", tokens.sizes());
  const torch::Tensor places = at::arange(tokens.size(1), tokens.options());
  torch::Tensor x = dropout_(token_(tokens) + place_(places));
  for (const auto& block : *blocks_) {
    auto& branch = *block->as<GptBranchImpl>();
    x = x + branch.attention(x);
    x = x + branch.mlp(x);
  }
  return at::linear(norm_(x), token_->weight);
}

}  // namespace tw::models
