// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/parameter_server/sharded_tensor.hpp>
#include <tw/parameter_server/traffic.hpp>
#include <tw/shards/crew.hpp>
#include <vector>

namespace tw::parameter_server {

struct DownpourOptions {
  double lr = 0.01;           ///< of the worker's own steps, and of what add pushes; positive
  int64_t push_interval = 1;  ///< steps between pushes; at least 1
  int64_t pull_interval = 1;  ///< steps between pulls; at least 1
  int64_t initial_delay = 0;  ///< steps before the first push, which a worker takes from the same start on its own
  int64_t prefetch_lead = 0;  ///< how many steps before it is integrated a pull begins; 0 to pull_interval
  /// What the servers do with gradients, such as rules::adagrad(). None: they add -lr times the gradients.
  std::vector<Rule> rule = {};
  Roles roles = {};
  bool share_memory = true;  ///< see ShardedTensorOptions

  /// @throws ContractError naming the wrong field
  void validate() const;
};

/// Downpour: workers train on their own, push what they have learnt to the servers, and take over the centre now and then. With x a worker's
/// parameters, g its gradient, c the centre:
///
///     each step                      G = G + g,  x = x - lr g
///     every push_interval steps      c = c - lr G  (or rule(c, G)),  G = 0
///     every pull_interval steps      x = c, as it was prefetch_lead steps ago
///
/// Nobody waits for anybody. Dean et al. 2012, "Large scale distributed deep networks".
///
/// ```
/// Downpour worker(comm, model->parameters(), {.lr = 0.05, .push_interval = 5, .pull_interval = 5});
/// for (...) { zero_grad; loss.backward(); worker.step(); }
/// worker.finish();                        // all ranks now hold the centre
/// ```
class Downpour {
 public:
  /// Collective. All begin with rank 0's parameters. @param parameters of one floating point type
  Downpour(const Communicator& comm, std::vector<at::Tensor> parameters, const DownpourOptions& options = {});
  ~Downpour();
  Downpour(const Downpour&) = delete;
  Downpour& operator=(const Downpour&) = delete;

  /// To be called after backward(), in place of an optimizer's step. Workers may make different numbers of steps. Collective over the ranks of a
  /// worker, whose gradients are equal.
  void step();
  /// Pushes what is left, waits for all workers, and takes over the centre. Collective.
  void finish();

  /// @throws ContractError on ranks that neither serve nor are their worker's first
  const ShardedTensor& centre() const;
  /// The ranks of this worker.
  const Communicator& group() const noexcept;
  /// On a worker's first rank.
  const Traffic& traffic() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::parameter_server
