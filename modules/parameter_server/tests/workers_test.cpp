// SPDX-License-Identifier: Apache-2.0
// Workers that learn by way of servers, against their formulas in one process: ranks take turns here, so that the order of what happens is known.
#include <torch/torch.h>

#include <tw/comm.hpp>
#include <tw/parameter_server.hpp>

#include "mpi_test.hpp"

namespace tw::parameter_server {
namespace {

using tw::testing::world;

constexpr double lr = 0.1;
// Some 30 operations on numbers below 4 in float64, each rounded by 2^-53 of them.
constexpr double tolerance = 30 * 4 * 0x1p-53;

std::vector<at::Tensor> parameters_from(double first) {
  return {torch::linspace(first, 1, 6, at::kDouble).view({2, 3}).requires_grad_(), torch::linspace(-1, first, 5, at::kDouble).requires_grad_()};
}

at::Tensor flat(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& each : parameters) all.push_back(each.detach().flatten());
  return torch::cat(all);
}

/// That of |x - 3|^2 / 2, from which workers on different ranks learn differently.
at::Tensor gradient_at(const at::Tensor& x, int rank) { return (x.detach() - 3) * (1 + 0.5 * rank); }

void set_gradients(const std::vector<at::Tensor>& parameters, int rank) {
  for (const at::Tensor& each : parameters) each.mutable_grad() = gradient_at(each, rank);
}

/// Runs `turn` on one rank after the other.
template <class Turn>
void in_turns(Turn turn) {
  for (int rank = 0; rank < world().size(); ++rank) {
    if (rank == world().rank()) turn();
    barrier(world());
  }
}

TEST(Downpour, IsItsFormula) {
  for (const DownpourOptions& o : {DownpourOptions{.lr = lr}, DownpourOptions{.lr = lr, .push_interval = 2, .pull_interval = 3},
                                   DownpourOptions{.lr = lr, .push_interval = 3, .pull_interval = 2, .initial_delay = 2},
                                   DownpourOptions{.lr = lr, .push_interval = 1, .pull_interval = 3, .prefetch_lead = 2}}) {
    const std::vector<at::Tensor> parameters = parameters_from(world().rank() == 0 ? 0.5 : 0.25);
    Downpour worker(world(), parameters, o);
    // All workers, here.
    at::Tensor c = flat(parameters_from(0.5));
    std::vector<at::Tensor> x(static_cast<size_t>(world().size()), c);
    std::vector<at::Tensor> g(x.size(), torch::zeros_like(c));
    std::vector<at::Tensor> fetched(x.size());
    for (int step = 1; step <= 7; ++step) {
      in_turns([&] {
        set_gradients(parameters, world().rank());
        worker.step();
      });
      for (size_t r = 0; r < x.size(); ++r) {
        const at::Tensor gradient = gradient_at(x[r], static_cast<int>(r));
        g[r] = g[r] + gradient;
        x[r] = x[r] - lr * gradient;
        const int64_t shared = step - o.initial_delay;
        if (shared <= 0) continue;
        if (shared % o.push_interval == 0) {
          c = c - lr * g[r];
          g[r] = torch::zeros_like(c);
        }
        if ((shared + o.prefetch_lead) % o.pull_interval == 0) fetched[r] = c;
        if (shared % o.pull_interval == 0 && fetched[r].defined()) x[r] = fetched[r];
      }
      EXPECT_TRUE(flat(parameters).allclose(x[static_cast<size_t>(world().rank())], 0, tolerance)) << "step " << step;
    }
    worker.finish();
    for (const at::Tensor& each : g) c = c - lr * each;
    EXPECT_TRUE(flat(parameters).allclose(c, 0, tolerance));
  }
}

TEST(Downpour, LetsServersFollowARule) {
  const std::vector<at::Tensor> parameters = parameters_from(0.5);
  Downpour worker(world(), parameters, {.lr = lr, .rule = {rules::adagrad({.lr = lr})}});
  const at::Tensor reference = flat(parameters).clone().requires_grad_();
  torch::optim::Adagrad adagrad({reference}, torch::optim::AdagradOptions(lr));
  for (int step = 0; step < 3; ++step) {
    in_turns([&] {
      set_gradients(parameters, 0);
      worker.step();
    });
    // One worker alone takes turns with itself: then this is Adagrad.
    reference.mutable_grad() = gradient_at(reference, 0);
    adagrad.step();
    if (world().size() == 1) {
      EXPECT_TRUE(flat(parameters).allclose(reference.detach(), 0, tolerance));
    }
  }
  worker.finish();
}

TEST(ElasticAveraging, IsItsFormulaAndMovesTheCentre) {
  const std::vector<at::Tensor> parameters = parameters_from(world().rank() == 0 ? 0.5 : 0.25);
  ElasticAveraging elastic(world(), parameters, {.period = 2, .beta = 0.8});
  const double alpha = 0.8 / world().size();
  EXPECT_DOUBLE_EQ(elastic.alpha(), alpha);
  at::Tensor c = flat(parameters_from(0.5));
  const at::Tensor start = c.clone();
  std::vector<at::Tensor> x(static_cast<size_t>(world().size()), c);
  torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
  for (int step = 1; step <= 6; ++step) {
    in_turns([&] {
      set_gradients(parameters, world().rank());
      sgd.step();
      EXPECT_EQ(elastic.step(), step % 2 == 0);
    });
    for (size_t r = 0; r < x.size(); ++r) {
      x[r] = x[r] - lr * gradient_at(x[r], static_cast<int>(r));
      if (step % 2 != 0) continue;
      const at::Tensor d = c - x[r];
      x[r] = x[r] + alpha * d;
      c = c - alpha * d;
    }
    EXPECT_TRUE(flat(parameters).allclose(x[static_cast<size_t>(world().rank())], 0, tolerance)) << "step " << step;
    EXPECT_TRUE(elastic.centre().prefetch().take().allclose(c, 0, tolerance)) << "step " << step;
    barrier(world());
  }
  EXPECT_GT((c - start).abs().min().item<double>(), 0.1);  // six steps of lr 0.1 from 2 to 4 away from the goal
  elastic.finish();
  EXPECT_TRUE(flat(parameters).allclose(c, 0, tolerance));
}

TEST(Workers, RefuseWrongOptions) {
  EXPECT_THROW(Downpour(world(), parameters_from(0), {.lr = 0}), ContractError);
  EXPECT_THROW(Downpour(world(), parameters_from(0), {.pull_interval = 2, .prefetch_lead = 3}), ContractError);
  EXPECT_THROW(ElasticAveraging(world(), parameters_from(0), {.period = 0}), ContractError);
  EXPECT_THROW(ElasticAveraging(world(), {}, {}), ContractError);
}

}  // namespace
}  // namespace tw::parameter_server
