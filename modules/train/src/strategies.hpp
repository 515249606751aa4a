// SPDX-License-Identifier: Apache-2.0
// The strategies, each in its own file, and what they share.
#pragma once
#include <tw/state/optimizer_state.hpp>

#include "strategy.hpp"

namespace tw::train {

std::unique_ptr<Strategy> make_data(const StrategySetup& setup);
std::unique_ptr<Strategy> make_sharded(const StrategySetup& setup);
std::unique_ptr<Strategy> make_fully_sharded(const StrategySetup& setup);
std::unique_ptr<Strategy> make_local_sgd(const StrategySetup& setup);
std::unique_ptr<Strategy> make_diloco(const StrategySetup& setup);
std::unique_ptr<Strategy> make_parameter_server(const StrategySetup& setup);

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
