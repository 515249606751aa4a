// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <vector>

namespace tw::train {

/// How the ranks train one model; docs/strategies.md compares them.
enum class StrategyKind {
  data,              ///< gradients are reduced in every step (DataParallel)
  sharded,           ///< the same, but each rank updates only its share of the parameters (ShardedOptimizer)
  fully_sharded,     ///< each rank keeps its share of parameters, gradients and state (FullySharded)
  local_sgd,         ///< ranks train alone, and average their parameters every `period` steps (LocalSgd)
  diloco,            ///< ranks train alone, and make an outer step every `period` steps (DiLoCo)
  parameter_server,  ///< ranks train alone, and exchange asynchronously with parameter servers, which run on all ranks (tw::parameter_server)
};

/// The parameter-server algorithm; docs/parameter_server.md compares them.
enum class ServerAlgorithm {
  downpour,  ///< Downpour: an exchange every `period` steps
  easgd,     ///< ElasticAveraging: likewise
  eamsgd,    ///< the same, with an optimizer that has Nesterov momentum
  ssp,       ///< StaleSynchronous
};

/// Compression of gradients.
enum class CompressionKind { none, float16, bfloat16, top_k, power_sgd };

struct StrategyOptions {
  StrategyKind kind = StrategyKind::data;
  CompressionKind compression = CompressionKind::none;  ///< of `data`; float16 and bfloat16 also of `diloco`
  double top_k_fraction = 0.01;
  int64_t power_sgd_rank = 2;
  bool release_gradients = false;          ///< of `sharded`: keep only this rank's share of the reduced gradients (ZeRO 2)
  bool one_copy_per_node = false;          ///< of `sharded` and `fully_sharded`: one copy of the parameters for all ranks of a node
  int64_t unit_bytes = int64_t{25} << 20;  ///< of `fully_sharded`, see FullyShardedOptions
  int prefetch_units = 0;                  ///< likewise
  int64_t resident_bytes = 0;              ///< likewise
  int64_t period = 50;  ///< steps between exchanges, of `local_sgd`, `diloco` and `parameter_server` (except `ssp`); ranks also synchronise at the
                        ///< end of each epoch
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;
  ServerAlgorithm algorithm = ServerAlgorithm::easgd;  ///< of `parameter_server`
  double beta = 0.9;                                   ///< of `easgd` and `eamsgd`, see ElasticOptions
  int64_t staleness = 3;                               ///< of `ssp`, see StaleSynchronousOptions

  /// Values that contradict each other. Keys as in Options.
  std::vector<Problem> contradictions() const;
};
void visit(StrategyOptions& options, OptionVisitor& visitor);

}  // namespace tw::train
