// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/parameter_server/traffic.hpp>
#include <tw/shards/crew.hpp>
#include <vector>

#include <ATen/core/Tensor.h>
#include <tw/mpi/communicator.hpp>

namespace tw::parameter_server {

struct SynchronousAveragingOptions {
  Seconds warn_after{10};  ///< a wait that takes longer is logged, with those who are waited for
  Roles roles = {};
  bool share_memory = true;  ///< see ShardedTensorOptions

  /// @throws ContractError naming the wrong field
  void validate() const;
};

/// Data-parallel training by way of the servers: with p workers, every worker's gradient g becomes (g_1 + ... + g_p) / p, as by an all-reduce. For
/// comparing with the asynchronous algorithms, and for workers that cannot reach each other but through servers.
///
/// ```
/// SynchronousAveraging average(comm, model->parameters());
/// for (...) { sgd.zero_grad(); loss.backward(); average.step(); sgd.step(); }
/// average.finish();
/// ```
class SynchronousAveraging {
 public:
  /// Collective. All begin with rank 0's parameters. @param parameters of one floating point type
  SynchronousAveraging(const Communicator& comm, std::vector<at::Tensor> parameters, const SynchronousAveragingOptions& options = {});
  ~SynchronousAveraging();
  SynchronousAveraging(const SynchronousAveraging&) = delete;
  SynchronousAveraging& operator=(const SynchronousAveraging&) = delete;

  /// To be called between backward() and the optimizer's step. Collective over workers. @throws Error where a worker has called finish() instead
  void step();
  /// Collective.
  void finish();

  /// The ranks of this worker.
  const Communicator& group() const noexcept;
  /// On a worker's first rank.
  const Traffic& traffic() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::parameter_server
