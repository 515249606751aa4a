// SPDX-License-Identifier: Apache-2.0
// LeNet on Fashion-MNIST: the number of training steps after which asynchronous successive halving, in both forms, finds a configuration as good as
// random search does with all its steps. Rungs as in Li et al. 2020: eta 4, the first one at 1/64 of a training.
//
// Halving relies on early losses as predictions, so a loss must say more about its configuration than chance does. After 1,024 steps with 8 samples
// each, the best 11 of 309 random configurations had losses of 0.50 to 0.54, and 0.51 to 0.74 with other seeds. The least of 27 losses is then luck,
// which no rung can predict. Batches of 32 halve that: 0.42 to 0.46, and with other seeds 0.43 to 0.54. The goal is the loss of the median random
// search, because the time to match a lucky one has no typical length. In simulated searches on the curves of 232 trainings, the median over nine
// searches is 0.28 by stopping and 0.22 by promotion. It is at most a third in 71 and 92 of 100 cases.
//
// Run: mpirun -n RANKS accept_halving DATA [SEEDS]; each rank searches with its own seeds, so results depend only on the seeds
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

constexpr int64_t trials = 27;  // in random search
constexpr int64_t rounds = 64;  // in each trial
constexpr int64_t steps_of_a_round = 8;
constexpr int64_t eta = 4;
constexpr int64_t batch = 32;
constexpr int64_t train_samples = rounds * steps_of_a_round * batch;
constexpr int64_t test_samples = 1000;

/// The first rung at or after `round`: 1, eta, eta^2, ...
int64_t next_rung(int64_t round) {
  int64_t rung = 1;
  while (rung < round) rung *= eta;
  return rung;
}

/// Trains by stochastic gradient descent; the loss is the test loss after the last round.
class LeNetTraining {
 public:
  /// @param most steps of all trials together; after them every trial fails immediately
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

struct Found {
  double loss = 0;
  double steps = 0;
};

Found search(const tw::Communicator& alone, const char* data, SearchOptions options, double most) {
  const Space space{real("lr", 1e-4, 1, log_scale), real("momentum", 0, 0.99), real("weight_decay", 1e-6, 1e-2, log_scale)};
  LeNetTraining training(data, most);
  options.propagator = [](const WorkerContext& context) { return std::make_unique<Breeder>(context.space, uniform_child()); };
  Search search(alone, space, std::ref(training), options);
  const double loss = search.run().best.loss;
  return {loss, static_cast<double>(training.steps())};
}

/// Results by seed, on all ranks; each rank computes those of its own seeds.
template <class F>
std::vector<double> for_all_seeds(const tw::Communicator& world, int seeds, F steps_or_loss) {
  std::vector<double> figures(static_cast<size_t>(seeds));
  for (int seed = world.rank(); seed < seeds; seed += world.size()) figures[static_cast<size_t>(seed)] = steps_or_loss(seed);
  tw::mpi::allreduce(world, {figures.data(), seeds, tw::ElementType::float64}, tw::ReduceOp::sum);
  return figures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  constexpr auto day = std::chrono::hours(24);  // ranks wait long for each other
  const tw::Environment mpi(argc, argv, {.stall_warning = day, .stall_abort = day});
  const int seeds = argc > 2 ? std::atoi(argv[2]) : 9;
  const tw::Communicator& world = mpi.world();
  const tw::Communicator alone = world.split(world.rank(), 0);
  const auto seeded = [](int64_t evaluations, int seed) { return SearchOptions{.evaluations = evaluations, .seed = static_cast<uint64_t>(seed)}; };

  std::vector<double> steps(static_cast<size_t>(seeds));  // steps of random search, by seed
  const std::vector<double> losses = for_all_seeds(world, seeds, [&](int seed) {
    const Found found = search(alone, argv[1], seeded(trials, seed), HUGE_VAL);
    steps[static_cast<size_t>(seed)] = found.steps;
    return found.loss;
  });
  const double goal = median_of(losses);
  const double most = median_of(for_all_seeds(world, seeds, [&](int seed) { return steps[static_cast<size_t>(seed)]; }));
  if (world.rank() == 0) {
    std::printf("random search: a loss of %.4f after %.0f steps, medians\n", goal, most);
    std::fflush(stdout);
  }

  // Runs until the loss is as good, or the number of steps is the same.
  const HalvingOptions halving{.grace = 1, .eta = eta, .max_steps = rounds};
  bool reached = true;
  for (const bool promotes : {false, true}) {
    std::vector<double> shares = for_all_seeds(world, seeds, [&](int seed) {
      SearchOptions options = seeded(trials * rounds, seed);
      options.target = goal;
      if (promotes) {
        options.scheduler = PromotionOptions{halving};
      } else {
        options.scheduler = [&] { return halving_rule(halving); };
      }
      return search(alone, argv[1], options, most).steps / most;
    });
    std::ranges::sort(shares);
    reached = reached && median_of(shares) <= 1.0 / 3;
    if (world.rank() != 0) continue;
    std::printf("%s: as good after a share of these steps of", promotes ? "promotion" : "stopping");
    for (const double share : shares) std::printf(" %.2f", share);
    std::printf(", median %.3f; at most a third: %s\n", median_of(shares), median_of(shares) <= 1.0 / 3 ? "yes" : "NO");
    std::fflush(stdout);
  }
  return reached ? 0 : 1;
}
