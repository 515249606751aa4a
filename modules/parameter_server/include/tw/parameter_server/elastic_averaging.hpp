// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <tw/parameter_server/worker.hpp>
#include <vector>

namespace tw::parameter_server {

struct ElasticOptions {
  int64_t period = 10;  ///< tau, the number of local steps between two elastic steps; at least 1
  double beta = 0.9;    ///< sum of alpha, the moving rate, over all workers; above 0, at most 1. The paper uses 0.9
  Roles roles = {};
  bool share_memory = true;  ///< see ShardedTensorOptions

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(ElasticOptions& options, OptionVisitor& visitor);

/// EASGD: workers train on their own with the user's optimizer, each attracted to a common centre on the servers by an elastic force. Here x is a
/// worker's parameters, c the centre, and alpha = beta / p with p workers. An elastic step, which a worker makes every `period` steps, is
///
///     d = c - x,    x = x + alpha * d,    c = c - alpha * d.
///
/// With torch::optim::SGD this is EASGD; with its Nesterov momentum it is EAMSGD, where the elastic force applies at the look-ahead position, since
/// SGD keeps the parameters there. No worker waits for the steps of another. Ref: Zhang, Choromanska & LeCun 2015, arXiv 1412.6651, Algorithms 1 and
/// 2.
///
/// ```
/// torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true));
/// ElasticAveraging elastic(comm, model->parameters(), {.period = 10});
/// for (...) { sgd.zero_grad(); loss.backward(); sgd.step(); elastic.step(); }
/// elastic.finish();                       // all ranks now hold the centre
/// ```
class ElasticAveraging final : public Worker {
 public:
  /// Collective. All ranks and the centre begin with rank 0's parameters. @param parameters all of one floating-point type, on one device
  ElasticAveraging(const Communicator& comm, std::vector<at::Tensor> parameters, const ElasticOptions& options = {});

  /// Call it after the optimizer's step. Workers may make different numbers of steps. @return whether this was an elastic step
  bool step() override;

  double alpha() const noexcept { return alpha_; }

 private:
  void push_rest() override;
  void restart() override { steps_ = 0; }
  Position position() const override { return {.counts = {steps_}}; }
  void resume_from(const Position& position) override { steps_ = position.counts.at(0); }

  void elastic_step();

  ElasticOptions options_;
  double alpha_;
  int64_t steps_ = 0;  // since the construction or the last finish()
};

}  // namespace tw::parameter_server
