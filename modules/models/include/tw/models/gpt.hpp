// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

namespace tw::models {

struct GptOptions {
  int64_t vocabulary = 256;
  int64_t context = 64;  ///< maximum number of tokens in a sequence
  int64_t width = 64;    ///< a multiple of `heads`
  int64_t heads = 4;
  int64_t blocks = 4;
  double dropout = 0;
};

/// The residual branch of a GPT block. Layer-parallel networks use it as du/dt; a block is then an Euler step of size 1.
class GptBranchImpl : public torch::nn::Module {
 public:
  /// Weights are drawn from normal(0, 0.02). The weights of the last layers of attention and MLP are also divided by sqrt(2 * blocks).
  explicit GptBranchImpl(const GptOptions& options);
  /// @param x [n, length, width] @return the same shape: attention(x) + mlp(x + attention(x))
  torch::Tensor forward(const torch::Tensor& x);
  torch::Tensor attention(const torch::Tensor& x);
  torch::Tensor mlp(const torch::Tensor& x);

 private:
  int64_t heads_;
  torch::nn::LayerNorm norm1_{nullptr};
  torch::nn::Linear attention_{nullptr};
  torch::nn::Linear attention_output_{nullptr};
  torch::nn::LayerNorm norm2_{nullptr};
  torch::nn::Linear wide_{nullptr};
  torch::nn::Linear narrow_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
};
TORCH_MODULE(GptBranch);

/// The sum of token and position embeddings, before the blocks: [n, length] -> [n, length, width].
class GptOpeningImpl : public torch::nn::Module {
 public:
  explicit GptOpeningImpl(const GptOptions& options);
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  torch::nn::Embedding token_{nullptr};
  torch::nn::Embedding place_{nullptr};
};
TORCH_MODULE(GptOpening);
/// The layers after the blocks: a layer norm and a linear layer, [n, length, width] -> logits [n, length, vocabulary].
torch::nn::Sequential gpt_closing(const GptOptions& options);

/// A decoder-only transformer: token and position embeddings, pre-norm blocks, a final layer norm, and logits from the token embedding's weight
/// (tied). A block has causal attention, then an MLP with 4 * width hidden units, each with a residual connection. Ref: Radford et al. 2019, GPT-2.
class GptImpl : public torch::nn::Module {
 public:
  /// Weights are drawn from normal(0, 0.02). The weights of the last layers of attention and MLP are also divided by sqrt(2 * blocks).
  /// @throws ContractError naming the wrong fields.
  explicit GptImpl(const GptOptions& options);
  /// @param tokens int64 [n, length], length at most GptOptions::context. @return logits [n, length, vocabulary]
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  GptOptions options_;
  torch::nn::Embedding token_{nullptr};
  torch::nn::Embedding place_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
  torch::nn::ModuleList blocks_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
};
TORCH_MODULE(Gpt);

}  // namespace tw::models
