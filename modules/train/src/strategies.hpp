// SPDX-License-Identifier: Apache-2.0
// The strategies, each in its own file, and what they share.
#pragma once
#include <tw/data_parallel/gradient_sums.hpp>
#include <tw/gradients/bucket_plan.hpp>
#include <tw/state/optimizer_state.hpp>
#include <tw/train/strategy_memory.hpp>

#include "strategy.hpp"

namespace tw::train {

std::unique_ptr<Strategy> make_every_step(const StrategySetup& setup);
std::unique_ptr<Strategy> make_sharded_optimizer(const StrategySetup& setup);
std::unique_ptr<Strategy> make_local_sgd(const StrategySetup& setup);
std::unique_ptr<Strategy> make_diloco(const StrategySetup& setup);
std::unique_ptr<Strategy> make_parameter_server(const StrategySetup& setup);

/// Options of the reduction of gradients, with Reduction::sum.
ReducerOptions reducer_options(const StrategySetup& setup);

/// Runs a pass, and sums gradients as soon as they are complete. @return whether it summed
bool pass_and_sum(GradientSums& sums, const MicroBatchShare& share, const std::function<void()>& pass);

// The parts of strategy_memory(), without the minimum size of a checkpoint. The first three return the memory of a rank whose replicas meet in every
// step, by how the model is divided. The last three add what replicas need if they meet in another manner.
StrategyMemory whole_memory(const ReplicaOptions& options, int ranks, const ModelMemory& model);
StrategyMemory sharded_optimizer_memory(const ShardOptions& options, int ranks, const ModelMemory& model);
StrategyMemory sharded_parameters_memory(const ShardOptions& options, int ranks, const ModelMemory& model);
void add_local_sgd(StrategyMemory& memory, const MeshSizes& mesh, const ModelMemory& model);
void add_diloco(StrategyMemory& memory, const ReplicaOptions& options, const MeshSizes& mesh, const ModelMemory& model);
void add_parameter_server(StrategyMemory& memory, const ReplicaOptions& options, const MeshSizes& mesh, const ModelMemory& model);

/// The memory of a rank that has a replica of the model and its optimizer.
StrategyMemory replica_memory(const ModelMemory& model);
/// The same, if ranks with whole replicas sum gradients.
StrategyMemory summing_memory(const ModelMemory& model);
/// The same, with the optimizer's state and checkpoints shared among `ranks`.
StrategyMemory shard_memory(int ranks, const ModelMemory& model);
int64_t trained_bytes(const ModelMemory& model);
int64_t largest_bytes(const ModelMemory& model);

/// Bytes of the buckets into which a strategy puts gradients, including padding.
struct BucketBytes {
  std::vector<int64_t> each = {};
  int64_t sum = 0;
  int64_t largest = 0;

  /// Maximum bytes of the buckets that a backward pass has in addition to one, if it releases buckets.
  int64_t in_flight() const;
};
BucketBytes bucket_bytes(const ModelMemory& model, const BucketOptions& options = {}, int slices = 1);

void append(std::vector<NamedShard>& shards, std::vector<NamedShard> more);

/// Divides all gradients that exist, sparse ones too.
void divide_gradients(const std::vector<NamedTensor>& parameters, double by);

/// Accounts for optimizer state.
void account_optimizer(KnownMemory& known, const std::vector<NamedShard>& shards);

/// State of `optimizer`, which trains the parameters of `model`.
OptimizerState state_of(torch::optim::Optimizer& optimizer, const Model& model);

}  // namespace tw::train
