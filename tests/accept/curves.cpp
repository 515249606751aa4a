// SPDX-License-Identifier: Apache-2.0
// What stopping rules save, and what they lose, on artificial curves of four kinds: the steps of 120 trials of up to 100 steps, and the best loss
// found minus the loss of the best trial. Four trials run at the same time, one step each in turn. Run: accept_curves [SEEDS]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <median.hpp>
#include <string>
#include <tw/base/random.hpp>
#include <tw/evolution/curve_model.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

namespace {

using namespace tw::search;
using tw::testing::median_of;

constexpr int64_t trials = 120;
constexpr int64_t steps = 100;
constexpr size_t in_flight = 4;

/// A learning rate on a logarithmic scale, and a second parameter.
Space rates() { return {real("lr", 1e-4, 1, log_scale), real("decay", 0, 1)}; }

/// The noise-free losses of a trial. `x` is the position of lr in its scale, `y` the second parameter; both are between 0 and 1.
struct Family {
  const char* name;
  double noise;
  double (*loss)(double x, double y, double t);
};

double bowl(double x, double y) { return 0.1 + 1.5 * (x - 0.6) * (x - 0.6) + 0.2 * (y - 0.3) * (y - 0.3); }

const Family families[] = {
    // Power laws from a common start, which do not cross.
    {"power laws", 0.003, [](double x, double y, double t) { return bowl(x, y) + (2.3 - bowl(x, y)) * std::pow(t, -0.8); }},
    // Small rates begin slowly and end better: curves cross.
    {"crossing", 0.005,
     [](double x, double y, double t) {
       const double end = 0.1 + 0.6 * x * x + 0.2 * (y - 0.3) * (y - 0.3);
       return end + (2.3 - end) * std::exp(-t * (0.03 + 0.6 * x));
     }},
    // Losses fall below zero, and large rates diverge.
    {"diverging", 0.02,
     [](double x, double y, double t) {
       const double end = -3 + 4 * (x - 0.5) * (x - 0.5) + (y - 0.5) * (y - 0.5);
       return end + 4 / std::sqrt(t) + (x > 0.75 ? 0.02 * std::exp((x - 0.75) * t / 2) : 0);
     }},
    // No change for a while, longer for smaller rates, and then a fall.
    {"late falls", 0.01,
     [](double x, double y, double t) {
       const double end = bowl(x, y);
       return end + (1.5 - end) / (1 + std::exp((t - 10 - 30 * (1 - x)) / 5));
     }},
};

struct Spent {
  double steps = 0;
  double regret = 0;  // above the best of all trials without stopping
  double seconds = 0;
};

/// @param rule null: none
Spent search(const Family& family, uint64_t seed, StoppingRule* rule) {
  const Space space = rates();
  struct Running {
    Individual individual;
    int64_t step = 0;
  };
  std::deque<Running> running;
  Spent spent;
  double found = HUGE_VAL;
  double best = HUGE_VAL;
  int64_t next = 0;
  const auto begun = std::chrono::steady_clock::now();
  while (next < trials || !running.empty()) {
    if (running.size() < in_flight && next < trials) {
      tw::CounterRng random(seed, static_cast<uint64_t>(next));
      Individual individual{.trial = next++, .values = {space.from_unit(0, uniform(random)), uniform(random)}};
      if (rule != nullptr) rule->begin(individual);
      running.push_back({std::move(individual)});
      continue;
    }
    Running trial = std::move(running.front());
    running.pop_front();
    const double x = space.to_unit(0, trial.individual.values[0]);
    const auto loss_at = [&](int64_t step) {
      tw::CounterRng random(seed, static_cast<uint64_t>(trial.individual.trial * 1000 + step + 1000000));
      return family.loss(x, trial.individual.values[1], static_cast<double>(step)) + family.noise * normal(random);
    };
    const Report report{trial.individual.trial, ++trial.step, loss_at(trial.step)};
    ++spent.steps;
    trial.individual.loss = report.value;
    bool should_continue = true;
    if (rule != nullptr) {
      rule->observe(report);
      should_continue = rule->should_continue(report);
    }
    if (trial.step < steps && should_continue) {
      running.push_back(std::move(trial));
      continue;
    }
    best = std::min(best, loss_at(steps));
    trial.individual.state = trial.step == steps ? TrialState::complete : TrialState::pruned;
    found = std::min(found, trial.individual.loss);
    if (rule != nullptr) rule->tell(trial.individual);
  }
  spent.regret = found - best;
  spent.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return spent;
}

struct NamedRule {
  const char* name;
  std::function<std::unique_ptr<StoppingRule>()> make;
};

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 9;
  const std::vector<NamedRule> rules{
      {"none", [] { return std::unique_ptr<StoppingRule>(); }},
      {"median", [] { return median_rule(); }},
      {"halving", [] { return halving_rule({.grace = 1, .eta = 4, .max_steps = steps}); }},
      {"parametric", [] { return curve_rule(parametric_curves()); }},
  };
  std::map<std::string, double> regret;  // by rule: sum of medians
  bool few = true;
  for (const Family& family : families) {
    for (const NamedRule& rule : rules) {
      std::vector<double> shares;
      std::vector<double> regrets;
      double seconds = 0;
      for (int seed = 0; seed < seeds; ++seed) {
        const Spent spent = search(family, static_cast<uint64_t>(seed), rule.make().get());
        shares.push_back(spent.steps / (trials * steps));
        regrets.push_back(spent.regret);
        seconds += spent.seconds;
      }
      std::printf("%-12s %-12s share of steps %.3f, regret: median %.4f, largest %.4f; %.2f s a search\n", family.name, rule.name, median_of(shares),
                  median_of(regrets), *std::max_element(regrets.begin(), regrets.end()), seconds / seeds);
      regret[rule.name] += median_of(regrets);
      if (std::string(rule.name) != "none") few = few && median_of(shares) < 0.4;
    }
  }
  const bool reached = few && regret["parametric"] < regret["median"] && regret["parametric"] < regret["halving"] / 3;
  std::printf(
      "regrets of the four families, in all: parametric %.4f, median %.4f, halving %.4f; in less than 0.4 of the steps, "
      "less than the median rule's and a third of halving's: %s\n",
      regret["parametric"], regret["median"], regret["halving"], reached ? "yes" : "NO");
  return reached ? 0 : 1;
}
