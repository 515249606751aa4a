// SPDX-License-Identifier: Apache-2.0
// The strategies, each in its own file, and what they share.
#pragma once
#include <tw/gradients/bucket_plan.hpp>
#include <tw/state/optimizer_state.hpp>
#include <tw/train/strategy_memory.hpp>

#include "strategy.hpp"

namespace tw::train {

std::unique_ptr<Strategy> make_data(const StrategySetup& setup);
std::unique_ptr<Strategy> make_sharded(const StrategySetup& setup);
std::unique_ptr<Strategy> make_fully_sharded(const StrategySetup& setup);
std::unique_ptr<Strategy> make_local_sgd(const StrategySetup& setup);
std::unique_ptr<Strategy> make_diloco(const StrategySetup& setup);
std::unique_ptr<Strategy> make_parameter_server(const StrategySetup& setup);

// What strategy_memory() returns, by strategy, without the least size of a checkpoint.
StrategyMemory data_memory(const StrategyOptions& options, int ranks, const ModelMemory& model);
StrategyMemory sharded_memory(const StrategyOptions& options, int ranks, const ModelMemory& model);
StrategyMemory fully_sharded_memory(const StrategyOptions& options, int ranks, const ModelMemory& model);
StrategyMemory local_sgd_memory(const ModelMemory& model);
StrategyMemory diloco_memory(const StrategyOptions& options, int ranks, const ModelMemory& model);
StrategyMemory parameter_server_memory(const StrategyOptions& options, int ranks, const ModelMemory& model);

/// The memory of a rank that has a replica of the model and its optimizer.
StrategyMemory replica_memory(const ModelMemory& model);
/// The same, with the optimizer's state and checkpoints shared among `ranks`.
StrategyMemory shard_memory(int ranks, const ModelMemory& model);
int64_t trained_bytes(const ModelMemory& model);
int64_t largest_bytes(const ModelMemory& model);

/// Bytes of the buckets into which a strategy puts gradients, padding included.
struct BucketBytes {
  std::vector<int64_t> each = {};
  int64_t sum = 0;
  int64_t largest = 0;

  /// Maximum of the buckets that a backward pass has in addition to one, where it releases them.
  int64_t in_flight() const;
};
BucketBytes bucket_bytes(const ModelMemory& model, const BucketOptions& options = {}, int slices = 1);

void append(std::vector<NamedShard>& shards, std::vector<NamedShard> more);

/// The model's parameter shards, without its other shards.
std::vector<NamedShard> parameter_shards(const Model& model);

/// Divides all gradients that exist, sparse ones too.
void divide_gradients(const std::vector<NamedTensor>& parameters, double by);

/// Accounts for parameters and their gradients. @param sharers of the parameters, see KnownMemory
void account_parameters(KnownMemory& known, const std::vector<NamedTensor>& parameters, int sharers = 1);

/// Accounts for the reducer's buffers.
void account_buckets(KnownMemory& known, const Reducer& reducer);

/// Accounts for optimizer state.
void account_optimizer(KnownMemory& known, const std::vector<NamedShard>& shards);

/// State of `optimizer`, which trains the parameters of `model`.
OptimizerState state_of(torch::optim::Optimizer& optimizer, const Model& model);

}  // namespace tw::train
