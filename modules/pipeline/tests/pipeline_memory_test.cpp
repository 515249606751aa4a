// SPDX-License-Identifier: Apache-2.0
// Number of activations that a stage holds, counted by LibTorch's allocator: fewer with 1F1B than with GPipe, and still fewer with recomputation.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/base/concat.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/planning/schedule_check.hpp>
#include <tw/tensor/held_memory.hpp>

namespace tw::pipeline {
namespace pipeline_memory_test {

using testing::world;

constexpr int64_t rows = 64;  // per micro-batch
constexpr int64_t width = 512;
constexpr int layers = 16;  // per stage; each stores one tensor, its output
constexpr int micro_batches = 8;

/// Peak memory of a step of this rank's stage, in tensors of a micro-batch.
/// @param block_layers layers per block
double tensors_held(Schedule (*schedule)(int, int), Recompute recompute, int block_layers = 1) {
  const int stages = world().size();
  std::vector<BlockFactory> blocks(static_cast<size_t>(stages * layers / block_layers), block([=] {
                                     torch::nn::Sequential layers_of_block;
                                     for (int i = 0; i < block_layers; ++i) layers_of_block->push_back(torch::nn::Tanh());
                                     return layers_of_block;
                                   }));
  // Without parameters there would be no backward pass.
  blocks[0] = block([=] {
    torch::nn::Sequential layers_of_block(torch::nn::Linear(width, width));
    for (int i = 1; i < block_layers; ++i) layers_of_block->push_back(torch::nn::Tanh());
    return layers_of_block;
  });
  Pipeline model(world(), blocks,
                 {.schedule = schedule(stages, micro_batches), .recompute = std::vector<Recompute>(static_cast<size_t>(stages), recompute)});
  const torch::Tensor x = torch::randn({rows * micro_batches, width});
  const auto loss = [](const torch::Tensor& y, const torch::Tensor& /*t*/) { return y.sum(); };
  model.run(x, x, loss);  // allocates gradients and other tensors that remain
  model.zero_grad(false);
  const auto bytes = static_cast<double>(peak_bytes(c10::kCPU, [&] { model.run(x, x, loss); }));
  return bytes / static_cast<double>(rows * width * static_cast<int64_t>(sizeof(float)));
}

TEST(PipelineMemory, IsThatOfTheSchedule) {
  const auto stage = static_cast<size_t>(world().rank());
  const int stored = stage == 0 ? layers - 1 : layers;  // the first block stores its input, which belongs to the caller
  const double by_gpipe = tensors_held(gpipe, Recompute::none);
  const double by_1f1b = tensors_held(one_forward_one_backward, Recompute::none);
  // Beyond stored activations: about three tensors for cotangents and messages in flight.
  EXPECT_NEAR(by_gpipe, micro_batches * stored, 5);
  EXPECT_NEAR(by_1f1b, max_in_flight(one_forward_one_backward(world().size(), micro_batches))[stage] * stored, 5);
  EXPECT_LT(by_1f1b, by_gpipe);
}

// The last layer's outputs are much wider than everything before; the last stage has two replicas if there are enough ranks.
TEST(PipelineMemory, OutputsOfAnEvaluationAreWhereLossesAre) {
  constexpr int64_t narrow = 8;
  constexpr int64_t wide = 4096;
  const int stages = world().size() > 2 ? world().size() - 1 : world().size();
  std::vector<BlockFactory> blocks(static_cast<size_t>(stages - 1), block([=] { return torch::nn::Linear(narrow, narrow); }));
  blocks.push_back(block([=] { return torch::nn::Linear(narrow, wide); }));
  std::vector<int> replicas(static_cast<size_t>(stages), 1);
  replicas.back() = world().size() - stages + 1;
  Pipeline model(world(), blocks, {.schedule = gpipe(stages, 1), .replicas = replicas});
  const torch::Tensor x = torch::randn({rows, narrow});
  const torch::Tensor expected = model.forward(x);
  torch::Tensor found;
  const auto bytes = static_cast<double>(peak_bytes(c10::kCPU, [&] { found = model.evaluate(x); }));
  const bool is_last = model.stages().front() == stages - 1;
  const bool judges = world().rank() == stages - 1;  // the first rank of the last stage
  EXPECT_EQ(found.defined(), judges);
  EXPECT_TRUE(!judges || found.equal(expected));
  const double outputs = static_cast<double>(rows * wide) * sizeof(float);
  const double mine = is_last ? outputs / replicas.back() : 0;
  EXPECT_LE(bytes, (judges ? 2 * outputs : mine) + outputs / 16);
}

TEST(PipelineMemory, IsLessWhereActivationsAreRecomputed) {
  const double kept = tensors_held(gpipe, Recompute::none);
  const double recomputed = tensors_held(gpipe, Recompute::full);
  RecordProperty("recomputed", std::to_string(recomputed / kept));
  const double formula = static_cast<double>(micro_batches + layers) / (micro_batches * layers);
  if (world().rank() > 0) {
    EXPECT_NEAR(recomputed / kept, formula, 0.2 * formula);
  } else {
    EXPECT_LT(recomputed / kept, 1.2 * formula);  // the first stage's inputs belong to the caller
  }
  EXPECT_LE(tensors_held(one_forward_one_backward, Recompute::full), recomputed + 2);  // messages in flight
}

TEST(PipelineMemory, IsThatOfSegmentsWhereTheyAreRecomputedOneByOne) {
  constexpr int block_layers = 4;
  constexpr int segments = layers / block_layers;
  const int inputs = world().rank() == 0 ? segments - 1 : segments;  // the first stage's inputs belong to the caller
  const double peak = block_layers + 2;                              // stored activations, and two cotangents
  for (const auto schedule : {gpipe, one_forward_one_backward}) {
    const int k = max_in_flight(schedule(world().size(), micro_batches))[static_cast<size_t>(world().rank())];
    const double formula = k * inputs + peak;
    EXPECT_NEAR(tensors_held(schedule, Recompute::selective, block_layers), formula, 0.2 * formula) << k << " in flight";
  }
}

}  // namespace pipeline_memory_test
}  // namespace tw::pipeline
