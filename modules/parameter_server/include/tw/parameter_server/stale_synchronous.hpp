// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <tw/parameter_server/worker.hpp>
#include <vector>

namespace tw::parameter_server {

struct StaleSynchronousOptions {
  int64_t staleness = 3;   ///< s, the number of steps by which a worker may be ahead of the slowest; at least 0
  Seconds warn_after{10};  ///< if a wait takes longer, a warning names the late workers
  Roles roles = {};
  bool share_memory = true;  ///< see ShardedTensorOptions

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(StaleSynchronousOptions& options, OptionVisitor& visitor);

/// Stale synchronous parallel: workers train on their own with the user's optimizer, but none gets more than s steps ahead of the slowest. Here x is
/// a worker's parameters, u the change that the worker's optimizer makes in step t, and c the centre, the parameters on the servers:
///
///     in step t                                          c = c + u
///     if any worker, this one included, had done fewer   wait until all workers have done t - s steps,  x = c
///     than t - s steps when x was last set to c
///
/// After step t, a worker's parameters thus contain all of its own updates, and all updates of other workers up to step t - s. With s = 0, no worker
/// begins a step before all have finished the previous one. Ref: Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel
/// parameter server".
///
/// ```
/// StaleSynchronous bounded(comm, model->parameters(), {.staleness = 2});
/// for (...) { sgd.zero_grad(); loss.backward(); sgd.step(); bounded.step(); }
/// bounded.finish();                       // all ranks now hold the centre
/// ```
class StaleSynchronous final : public Worker {
 public:
  /// Collective. All ranks begin with rank 0's parameters. @param parameters all of one floating-point type, on one device
  StaleSynchronous(const Communicator& comm, std::vector<at::Tensor> parameters, const StaleSynchronousOptions& options = {});

  /// Call it after the optimizer's step. Workers may make different numbers of steps: no worker waits for one that has called finish().
  /// @return whether this step set x = c
  bool step() override;
  std::vector<at::Tensor> retained_state() const override { return {before_}; }

 private:
  void restart() override;
  Position position() const override;
  void resume_from(const Position& position) override;
  /// Returns the first rank's value on all ranks of the worker, since only the first rank knows the clocks.
  bool agreed(bool of_first_rank) const;

  StaleSynchronousOptions options_;
  at::Tensor before_;  // the parameters when this worker's step began
  int64_t steps_ = 0;  // since the construction, or the last finish() or restore()
};

}  // namespace tw::parameter_server
