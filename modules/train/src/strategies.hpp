// SPDX-License-Identifier: Apache-2.0
// The strategies, each in a file of its own, and what they have in common.
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

/// Of the model's shards, those of parameters.
std::vector<NamedShard> parameter_shards(const Model& model);

/// Of all parameters that have one, sparse ones too.
void divide_gradients(const std::vector<NamedTensor>& parameters, double by);

/// Of parameters and their gradients. @param sharers of the parameters, see KnownMemory
void account_parameters(KnownMemory& known, const std::vector<NamedTensor>& parameters, int sharers = 1);

/// Of what the reducer keeps.
void account_buckets(KnownMemory& known, const Reducer& reducer);

/// Of what is remembered of parameters.
void account_optimizer(KnownMemory& known, const std::vector<NamedShard>& shards);

/// What `optimizer`, over the parameters of `model`, remembers.
OptimizerState state_of(torch::optim::Optimizer& optimizer, const Model& model);

}  // namespace tw::train
