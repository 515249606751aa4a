// SPDX-License-Identifier: Apache-2.0
// LeNet on Fashion-MNIST: the training steps in which asynchronous successive halving, in both forms, finds as good a configuration as random search
// does in all of its own.
// Run: mpirun -n RANKS accept_halving DATA [SEEDS]; each rank searches with seeds of its own, so that the figures are a function of the seeds
#include <ATen/ops/cross_entropy_loss.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <first_samples.hpp>
#include <median.hpp>
#include <tw/base/error.hpp>
#include <tw/base/random.hpp>
#include <tw/data/image_dataset.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/models/lenet.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/search/search.hpp>
#include <vector>

namespace {

using namespace tw::search;
using tw::testing::median_of;

constexpr int64_t trials = 27;  // of random search
constexpr int64_t rounds = 64;  // of each
constexpr int64_t steps_of_a_round = 16;
constexpr int64_t eta = 4;
constexpr int64_t train_samples = 8192;
constexpr int64_t test_samples = 1000;
constexpr int64_t batch = 8;

/// The first rung at or after `round`: 1, eta, eta^2, ...
int64_t next_rung(int64_t round) {
  int64_t rung = 1;
  while (rung < round) rung *= eta;
  return rung;
}

/// Trains by stochastic gradient descent; the loss is that of the test samples after the last round.
class LeNetTraining {
 public:
  /// @param most steps of all trials; after them every trial fails at once
  LeNetTraining(const char* data, double most)
      : most_(most),
        train_(tw::testing::first_samples(tw::load_mnist(data, tw::Split::train), train_samples)),
        test_(tw::testing::first_samples(tw::load_mnist(data, tw::Split::test), test_samples)) {}

  int64_t steps() const { return steps_; }

  Outcome operator()(const Configuration& c, Trial& trial) {
    torch::manual_seed(static_cast<uint64_t>(trial.number()));
    tw::models::LeNet model;
    torch::optim::SGD sgd(model->parameters(),
                          torch::optim::SGDOptions(c.real("lr")).momentum(c.real("momentum")).weight_decay(c.real("weight_decay")));
    const auto order = at::tensor(tw::random_permutation(train_samples, static_cast<uint64_t>(trial.number()), 0));
    double loss = 0;
    for (int64_t round = trial.attach(*model, sgd) + 1; round <= rounds; ++round) {
      if (static_cast<double>(steps_) >= most_) throw tw::Error("as many steps as random search has made");
      for (int64_t step = (round - 1) * steps_of_a_round; step < round * steps_of_a_round; ++step, ++steps_) {
        const at::Tensor rows = order.narrow(0, step * batch, batch);
        sgd.zero_grad();
        at::cross_entropy_loss(model->forward(train_.inputs.index_select(0, rows)), train_.targets.index_select(0, rows)).backward();
        sgd.step();
      }
      if (round != next_rung(round)) continue;
      const torch::NoGradGuard no_gradients;
      loss = at::cross_entropy_loss(model->forward(test_.inputs), test_.targets).item<double>();
      if (!trial.report(round, loss)) break;
    }
    return loss;
  }

 private:
  double most_;
  tw::Batch train_;
  tw::Batch test_;
  int64_t steps_ = 0;
};

struct Spent {
  double best = 0;
  double steps = 0;
};

Spent search(const tw::Communicator& alone, const char* data, SearchOptions options, double most) {
  const Space space{real("lr", 1e-4, 1, log_scale), real("momentum", 0, 0.99), real("weight_decay", 1e-6, 1e-2, log_scale)};
  LeNetTraining training(data, most);
  options.propagator = [](const Seat& seat) { return std::make_unique<Breeder>(seat.space, uniform_child()); };
  Search search(alone, space, std::ref(training), options);
  const double best = search.run().best.loss;
  return {best, static_cast<double>(training.steps())};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const tw::Environment mpi(argc, argv, {.stall_abort = std::chrono::hours(24)});  // ranks wait long for each other at the end
  const int seeds = argc > 2 ? std::atoi(argv[2]) : 6;
  const tw::Communicator alone = mpi.world().split(mpi.world().rank(), 0);
  const HalvingOptions halving{.grace = 1, .eta = eta, .max_steps = rounds};
  std::vector<double> figures(static_cast<size_t>(3 * seeds));  // by seed: steps of random search, and of both forms
  for (int seed = mpi.world().rank(); seed < seeds; seed += mpi.world().size()) {
    const Spent random = search(alone, argv[1], {.evaluations = trials, .seed = static_cast<uint64_t>(seed)}, HUGE_VAL);
    // Until it is as good, or has cost as much.
    SearchOptions options{.evaluations = trials * rounds, .target = random.best, .seed = static_cast<uint64_t>(seed)};
    options.stopping = [&] { return halving_rule(halving); };
    const Spent stopping = search(alone, argv[1], options, random.steps);
    options.stopping = {};
    options.promotion = halving;
    const Spent promotion = search(alone, argv[1], options, random.steps);
    std::printf("seed %d: random search reaches %.4f in %.0f steps; stopping %.0f, promotion %.0f\n", seed, random.best, random.steps, stopping.steps,
                promotion.steps);
    std::fflush(stdout);
    const double found[] = {random.steps, stopping.steps, promotion.steps};
    std::copy(std::begin(found), std::end(found), figures.begin() + 3 * seed);
  }
  tw::mpi::allreduce(mpi.world(), {figures.data(), static_cast<int64_t>(figures.size()), tw::ElementType::float64}, tw::ReduceOp::sum);
  if (mpi.world().rank() != 0) return 0;
  std::vector<double> shares[2];
  for (int seed = 0; seed < seeds; ++seed) {
    const double* of = &figures[static_cast<size_t>(3 * seed)];
    for (int form = 0; form < 2; ++form) shares[form].push_back(of[1 + form] / of[0]);
  }
  const bool reached = median_of(shares[0]) <= 1.0 / 3 && median_of(shares[1]) <= 1.0 / 3;
  std::printf("steps to random search's best, share of its own, medians: stopping %.3f, promotion %.3f; at most a third: %s\n", median_of(shares[0]),
              median_of(shares[1]), reached ? "yes" : "NO");
  return reached ? 0 : 1;
}
