// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <vector>

namespace tw::train {

/// How replicas of the model, along the mesh axis `data`, train one model; docs/strategies.md compares them. Several ranks along `data` may form one
/// replica: see ReplicaOptions::ranks_per_group.
enum class Meeting {
  every_step,        ///< gradients are summed in every step (DataParallel)
  local_sgd,         ///< replicas train independently, and average their parameters every `period` steps (LocalSgd)
  diloco,            ///< replicas train independently, and make an outer step every `period` steps (DiLoCo)
  parameter_server,  ///< replicas train independently, and exchange with parameter servers asynchronously; the servers run on all ranks
                     ///< (tw::parameter_server)
};

/// The parameter-server algorithm; docs/parameter_server.md compares them.
enum class ServerAlgorithm {
  downpour,  ///< Downpour: an exchange every `period` steps
  easgd,     ///< ElasticAveraging: an exchange every `period` steps
  eamsgd,    ///< like easgd, with an optimizer that must be torch::optim::SGD with Nesterov momentum
  ssp,       ///< StaleSynchronous
};

/// Compression of gradients.
enum class CompressionKind { none, float16, bfloat16, top_k, power_sgd };

struct ReplicaOptions {
  Meeting meet = Meeting::every_step;
  CompressionKind compression = CompressionKind::none;  ///< only with Meeting::every_step; float16 and bfloat16 also with Meeting::diloco
  double top_k_fraction = 0.01;
  int64_t power_sgd_rank = 2;
  /// Number of consecutive ranks along `data` that form a group. The ranks of a group sum their gradients in every step, so that the group trains as
  /// one replica; groups meet as `meet` states. Must divide the number of ranks along `data`. Not used with `every_step`, where all ranks sum
  int64_t ranks_per_group = 1;
  int64_t period = 50;  ///< steps between exchanges; not used with `every_step` and `ssp`. Replicas also synchronise at the end of each epoch
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;
  ServerAlgorithm algorithm = ServerAlgorithm::easgd;  ///< only with Meeting::parameter_server
  double beta = 0.9;                                   ///< only with `easgd` and `eamsgd`; see ElasticOptions::beta
  int64_t staleness = 3;                               ///< only with `ssp`; see StaleSynchronousOptions::staleness

  /// Whether the compression keeps the part of a gradient that it does not send, for the next step.
  bool keeps_residuals() const { return compression == CompressionKind::top_k || compression == CompressionKind::power_sgd; }
  /// Values that contradict each other. Problems have keys as in Options, such as "replicas.compression".
  std::vector<Problem> contradictions() const;
};
void visit(ReplicaOptions& options, OptionVisitor& visitor);

}  // namespace tw::train
