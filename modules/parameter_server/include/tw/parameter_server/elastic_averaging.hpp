// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <tw/parameter_server/worker.hpp>
#include <vector>

namespace tw::parameter_server {

struct ElasticOptions {
  int64_t period = 10;  ///< tau: a worker's own steps from one elastic step to the next; at least 1
  double beta = 0.9;    ///< of all workers together; above 0, at most 1. The paper has 0.9
  Roles roles = {};
  bool share_memory = true;  ///< see ShardedTensorOptions

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(ElasticOptions& options, OptionVisitor& visitor);

/// EASGD: workers train on their own with the user's optimizer, each bound to a centre by a spring. With p workers, alpha = beta / p, x a worker's
/// parameters and c the centre, every `period` steps
///
///     d = c - x,    x = x + alpha d,    c = c - alpha d.
///
/// With torch::optim::SGD this is EASGD; with its Nesterov momentum EAMSGD, the spring pulling at the place to which the momentum has carried x,
/// where SGD keeps the parameters. Nobody waits for anybody. Zhang, Choromanska & LeCun 2015, arXiv 1412.6651, Algorithms 1 and 2.
///
/// ```
/// torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true));
/// ElasticAveraging elastic(comm, model->parameters(), {.period = 10});
/// for (...) { sgd.zero_grad(); loss.backward(); sgd.step(); elastic.step(); }
/// elastic.finish();                       // all ranks now hold the centre
/// ```
class ElasticAveraging final : public Worker {
 public:
  /// Collective. All begin with rank 0's parameters, and so does the centre. @param parameters of one floating point type
  ElasticAveraging(const Communicator& comm, std::vector<at::Tensor> parameters, const ElasticOptions& options = {});

  /// To be called after the optimizer's step. Workers may make different numbers of steps. @return whether it was an elastic one
  bool step() override;

  double alpha() const noexcept { return alpha_; }

 private:
  ElasticOptions options_;
  double alpha_;
  int64_t steps_ = 0;
};

}  // namespace tw::parameter_server
