// SPDX-License-Identifier: Apache-2.0
// A network that fails where a Failure says, and its loss.
#pragma once
#include "failing.hpp"

#include <map>

namespace tw::testing {

struct FailingNetImpl : torch::nn::Module {
  FailingNetImpl() {
    torch::manual_seed(4);
    first = register_module("first", torch::nn::Linear(6, 9));
    norm = register_module("norm", torch::nn::BatchNorm1d(9));
    middle = register_module("middle", torch::nn::Linear(9, 9));
    last = register_module("last", torch::nn::Linear(9, 3));
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x, const Failure& failure) {
    const at::Tensor hidden = FailingBackward::apply(middle(torch::tanh(norm(first(x)))), &failure);
    failure.raise_at(Failure::Place::model);  // after the running mean has changed
    return last(hidden);
  }
  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear middle{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(FailingNet);

/// The loss of this rank's samples of a step.
inline at::Tensor loss_of(FailingNet& net, int step, const Failure& failure = {}) {
  torch::manual_seed(static_cast<uint64_t>(100 * step + static_cast<int>(world().rank())));
  const at::Tensor x = torch::randn({5, 6}, torch::kDouble);
  const at::Tensor y = net(x, failure);
  failure.raise_at(Failure::Place::loss);
  return (y - x.narrow(1, 0, 3)).square().mean();
}

/// Steps that fail before a step, one after the other.
using Failures = std::map<int, std::vector<Failure>>;

/// Makes four updates, and the steps that fail. @param parallel has train_step()
template <class Parallel>
void train(FailingNet& net, Parallel& parallel, torch::optim::Optimizer& optimizer, const Failures& failures, bool to_none = true) {
  for (int step = 0; step < 4; ++step) {
    const auto found = failures.find(step);
    for (size_t i = 0; found != failures.end() && i < found->second.size(); ++i) {
      const Failure& failure = found->second[i];
      expect_failure(failure, [&] { parallel.train_step([&] { loss_of(net, step + 50, failure).backward(); }); });
      optimizer.zero_grad(to_none);
    }
    const double loss = parallel.train_step([&] {
      const at::Tensor of_step = loss_of(net, step);
      of_step.backward();
      return of_step.template item<double>();
    });
    EXPECT_GT(loss, 0);
    optimizer.step();
    optimizer.zero_grad(to_none);
  }
}

}  // namespace tw::testing
