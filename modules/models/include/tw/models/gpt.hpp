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
  int64_t context = 64;  ///< tokens of a sequence, at most
  int64_t width = 64;    ///< a multiple of `heads`
  int64_t heads = 4;
  int64_t blocks = 4;
  double dropout = 0;
};

/// What a block of a GPT adds to its input, which is the rate of change of a step of one: of a net whose blocks are layers in parallel.
class GptBranchImpl : public torch::nn::Module {
 public:
  /// Weights normal(0, 0.02), those that end a branch smaller by sqrt(2 blocks).
  explicit GptBranchImpl(const GptOptions& options);
  /// @param x [n, length, width] @return the same shape: attention(x) + mlp(x + attention(x))
  torch::Tensor forward(const torch::Tensor& x);
  torch::Tensor attention(const torch::Tensor& x);
  torch::Tensor mlp(const torch::Tensor& x);

 private:
  int64_t heads_;
  torch::nn::LayerNorm norm1_{nullptr};
  torch::nn::Linear attention_{nullptr};
  torch::nn::Linear attended_{nullptr};
  torch::nn::LayerNorm norm2_{nullptr};
  torch::nn::Linear wide_{nullptr};
  torch::nn::Linear narrow_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
};
TORCH_MODULE(GptBranch);

/// The embeddings that come before the blocks, [n, length] to [n, length, width], and what comes after them, to logits [n, length, vocabulary].
class GptOpeningImpl : public torch::nn::Module {
 public:
  explicit GptOpeningImpl(const GptOptions& options);
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  torch::nn::Embedding token_{nullptr};
  torch::nn::Embedding place_{nullptr};
};
TORCH_MODULE(GptOpening);
torch::nn::Sequential gpt_closing(const GptOptions& options);

/// A decoder of tokens: embeddings of token and place, blocks of causal attention and an MLP of four times the width, each after a layer norm and
/// added to what it was given, a last layer norm, and logits by the token embedding's own weight. Ref: Radford et al. 2019, GPT-2.
class GptImpl : public torch::nn::Module {
 public:
  /// Weights normal(0, 0.02), those that end a residual branch smaller by sqrt(2 blocks). @throws ContractError naming the wrong field
  explicit GptImpl(const GptOptions& options);
  /// @param tokens int64 [n, length], length up to the context. @return logits [n, length, vocabulary]
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
