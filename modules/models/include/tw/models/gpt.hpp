// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
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
