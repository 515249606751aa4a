// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <tw/parameter_server/worker.hpp>
#include <vector>

namespace tw::parameter_server {

struct DownpourOptions {
  int64_t push_interval = 1;  ///< steps between pushes; at least 1
  int64_t pull_interval = 1;  ///< steps between pulls; at least 1
  int64_t initial_delay = 0;  ///< steps that a worker makes before both intervals begin
  int64_t prefetch_lead = 0;  ///< number of steps by which a pull begins before its values are used; 0 to pull_interval
  /// The servers' update rule for gradients, such as rules::adagrad(); at most one. Empty: servers add the changes that workers' optimizers have
  /// made.
  std::vector<Rule> rule = {};
  Roles roles = {};
  bool share_memory = true;  ///< see ShardedTensorOptions

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(DownpourOptions& options, OptionVisitor& visitor);

/// Downpour: workers train on their own with the user's optimizer, push their accumulated changes or gradients to the servers, and at intervals
/// replace their parameters by the centre, the parameters on the servers. Here x is a worker's parameters, g its gradient, u the change that the
/// worker's optimizer makes in a step (-lr * g for plain SGD), and c the centre:
///
///     each step                      U = U + u       (or G = G + g)
///     every push_interval steps      c = c + U,  U = 0      (or c = rule(c, G),  G = 0)
///     every pull_interval steps      x = c, as it was prefetch_lead steps ago
///
/// No worker waits for the steps of another. Ref: Dean et al. 2012, "Large scale distributed deep networks".
///
/// ```
/// Downpour downpour(comm, model->parameters(), {.push_interval = 5, .pull_interval = 5});
/// for (...) { sgd.zero_grad(); loss.backward(); sgd.step(); downpour.step(); }
/// downpour.finish();                      // all ranks now hold the centre
/// ```
class Downpour final : public Worker {
 public:
  /// Collective. All ranks begin with rank 0's parameters. @param parameters all of one floating-point type, on one device
  Downpour(const Communicator& comm, std::vector<at::Tensor> parameters, const DownpourOptions& options = {});

  /// Call it after the optimizer's step. Workers may make different numbers of steps. @return whether this step set x = c
  bool step() override;
  std::vector<at::Tensor> retained_state() const override { return {before_, gradient_sum_}; }

 private:
  void push_rest() override;
  void restart() override;
  Position position() const override;
  void resume_from(const Position& position) override;
  /// U, or G if there is a rule.
  at::Tensor pending_update() const;

  DownpourOptions options_;
  at::Tensor before_;        // the parameters from which U is computed
  at::Tensor gradient_sum_;  // G, if there is a rule
  int64_t steps_ = 0;
};

}  // namespace tw::parameter_server
