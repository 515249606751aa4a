// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <tw/parameter_server/worker.hpp>
#include <vector>

namespace tw::parameter_server {

struct SynchronousAveragingOptions {
  Seconds warn_after{10};  ///< a wait that takes longer is logged, with those who are waited for
  Roles roles = {};
  bool share_memory = true;  ///< see ShardedTensorOptions

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(SynchronousAveragingOptions& options, OptionVisitor& visitor);

/// Data-parallel training by way of the servers: with p workers, every worker's gradient g becomes (g_1 + ... + g_p) / p, as by an all-reduce. For
/// comparing with the asynchronous algorithms, and for workers that cannot reach each other but through servers.
///
/// ```
/// SynchronousAveraging average(comm, model->parameters());
/// for (...) { sgd.zero_grad(); loss.backward(); average.step(); sgd.step(); }
/// average.finish();
/// ```
class SynchronousAveraging final : public Worker {
 public:
  /// Collective. All begin with rank 0's parameters. @param parameters of one floating point type
  SynchronousAveraging(const Communicator& comm, std::vector<at::Tensor> parameters, const SynchronousAveragingOptions& options = {});

  /// To be called between backward() and the optimizer's step: gradients are taken over. Collective over workers.
  /// @throws Error where a worker has called finish() instead
  bool step() override;
  /// Waits for all workers. The parameters, which are the same everywhere, stay what they are. Collective.
  void finish() override;
  void restore(const std::vector<NamedShard>& shards) override;

 private:
  void begin_anew() override { steps_ = 0; }

  SynchronousAveragingOptions options_;
  int64_t steps_ = 0;  // since all were together
};

}  // namespace tw::parameter_server
