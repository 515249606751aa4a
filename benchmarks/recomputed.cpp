// SPDX-License-Identifier: Apache-2.0
// tensor/recomputed: forward and backward pass of a chain of recomputed segments, against plain calls plus one forward pass without gradients
// ("plain_and_forward"), the minimum cost of recomputation.
#include "measure.hpp"

#include <torch/torch.h>

#include <tw/autograd/recomputed.hpp>

namespace {

using tw::benchmark::Contest;
using Segment = std::function<at::Tensor(const at::Tensor&)>;

void measure(const Contest& contest, const std::string& name, const std::vector<Segment>& segments, const at::Tensor& x, int steps) {
  const auto forward = [&](bool again) {
    at::Tensor y = x;
    for (const Segment& each : segments) y = again ? tw::recomputed(each, y) : each(y);
    return y;
  };
  tw::benchmark::Case of{.benchmark = "tensor/recomputed", .name = name, .baseline = "plain_and_forward"};
  of.steps = steps;
  of.step = [&] {
    forward(contest.is_ours()).sum().backward();
    if (contest.is_ours()) return;
    const torch::NoGradGuard no_gradients;
    forward(false);
  };
  tw::benchmark::compare(contest, of);
}

template <class Holder>
Segment segment_of(Holder module) {
  return [module](const at::Tensor& x) mutable { return module->forward(x); };
}

Segment layer(int64_t width) {
  return [linear = torch::nn::Linear(width, width)](const at::Tensor& x) mutable { return linear->forward(x).tanh(); };
}

/// Twice a convolution with `channels` channels, batch norm and ReLU, added to the input.
Segment residual(int64_t channels) {
  torch::nn::Sequential branch;
  for (int i = 0; i < 2; ++i) {
    branch->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels, 3).padding(1)));
    branch->push_back(torch::nn::BatchNorm2d(channels));
    branch->push_back(torch::nn::ReLU());
  }
  return [branch](const at::Tensor& x) mutable { return branch->forward(x) + x; };
}

void measure_all(const Contest& contest) {
  torch::manual_seed(1);
  std::vector<Segment> blocks;
  for (int i = 0; i < 4; ++i) {
    torch::nn::TransformerEncoderLayer block(torch::nn::TransformerEncoderLayerOptions(128, 4).dim_feedforward(512));
    blocks.push_back(segment_of(block));
  }
  measure(contest, "transformer_4x128", blocks, torch::randn({64, 8, 128}), 2);
  measure(contest, "residual_4x16", {residual(16), residual(16), residual(16), residual(16)}, torch::randn({32, 16, 28, 28}), 2);
  measure(contest, "dense_8x256", std::vector<Segment>(8, layer(256)), torch::randn({64, 256}), 20);
  measure(contest, "dense_8x16", std::vector<Segment>(8, layer(16)), torch::randn({8, 16}), 200);
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all); }
