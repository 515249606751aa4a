// SPDX-License-Identifier: Apache-2.0
// search/rate: evaluations per second of an objective that costs nothing, in 30 dimensions, with journal and migration; the last tenth of the trials
// against the first.
// search/busy, with the argument "busy": the share of time that workers spend evaluating, with evaluations of log-normal length.
// search/cma, with "cma" and two ranks, one for each contestant: ask() and tell() of CMA-ES, against the linear algebra that they require.
#include "measure.hpp"

#include <Eigen/Eigenvalues>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <tw/base/concat.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/cma_es.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/search/journal.hpp>
#include <tw/search/search.hpp>

namespace {

using namespace tw::search;
using tw::benchmark::Contest;

Space cube(int dimensions) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < dimensions; ++i) parameters.push_back(real(tw::concat("x", i), -1.28, 1.28));
  return Space(parameters);
}

void print_line(const Contest& contest, nlohmann::ordered_json line) {
  if (contest.world().rank() == 0) std::cout << line << std::endl;
}

/// Seconds for the share [begin, end) of all evaluations, in the order in which they ended.
double span(const std::vector<double>& ends, double begin, double end) {
  const auto at = [&](double share) { return ends[static_cast<size_t>(share * static_cast<double>(ends.size() - 1))]; };
  return at(end) - at(begin);
}

void measure_rate(const Contest& contest) {
  constexpr int64_t evaluations = 100000;
  constexpr int rounds = 10;
  const tw::Communicator& comm = contest.comm();
  const std::filesystem::path folder = "build/bench_runs/search_rate";
  std::vector<double> rates;
  std::vector<double> first_ms;
  std::vector<double> last_ms;
  for (int round = -1; round < rounds; ++round) {
    if (comm.rank() == 0) std::filesystem::remove_all(folder);
    comm.barrier();
    Search search(comm, cube(30), [](const Configuration& c, Trial& /*trial*/) { return c.values().front(); },
                  {.islands = std::min(2, comm.size()),
                   .evaluations = evaluations,
                   .seed = static_cast<uint64_t>(round + 1),
                   .journal = folder,
                   .propagator = [](const WorkerContext& context) { return std::make_unique<Breeder>(context.space); }});
    const SearchResult result = search.run();
    if (round < 0 || comm.rank() != 0) continue;
    rates.push_back(static_cast<double>(result.complete) / result.seconds);
    std::vector<double> ends;
    for (const JournalFile& file : read_journal(folder)) {
      for (const Record& record : file.records) {
        if (record.kind == Record::Kind::end) ends.push_back(record.time);
      }
    }
    std::sort(ends.begin(), ends.end());
    first_ms.push_back(1e3 * span(ends, 0, 0.1));
    last_ms.push_back(1e3 * span(ends, 0.9, 1));
  }
  if (comm.rank() != 0) return;
  using tw::benchmark::percentile;
  print_line(contest, {{"benchmark", "search/rate"},
                       {"case", "genetic_30d"},
                       {"ranks", comm.size()},
                       {"baseline", "first_tenth"},
                       {"baseline_ms", percentile(first_ms, 0.5)},
                       {"ours_ms", percentile(last_ms, 0.5)},
                       {"ratio", percentile(first_ms, 0.5) / percentile(last_ms, 0.5)},
                       {"rounds", rounds},
                       {"spread", (percentile(rates, 0.9) - percentile(rates, 0.1)) / percentile(rates, 0.5)},
                       {"rate_per_s", percentile(rates, 0.5)}});
}

void measure_busy(const Contest& contest) {
  constexpr int rounds = 10;
  const tw::Communicator& comm = contest.comm();
  std::vector<double> all_ms;
  std::vector<double> busy_ms;
  for (int round = 0; round < rounds; ++round) {
    Search search(comm, cube(10),
                  [](const Configuration& c, Trial& trial) {
                    tw::CounterRng random = trial.rng();
                    std::this_thread::sleep_for(std::chrono::duration<double>(0.01 * std::exp(0.8 * normal(random))));
                    return c.values().front();
                  },
                  {.evaluations = 200 * comm.size(), .seed = static_cast<uint64_t>(round), .propagator = [](const WorkerContext& context) {
                     return std::make_unique<Breeder>(context.space);
                   }});
    const SearchResult result = search.run();
    all_ms.push_back(1e3 * result.seconds);
    busy_ms.push_back(1e3 * result.seconds * result.busy);
  }
  tw::benchmark::print(contest, {.benchmark = "search/busy", .name = "log_normal_10ms", .baseline = "evaluations", .rounds = rounds}, busy_ms,
                       all_ms);
}

/// Sum of 10^(6 i / (n - 1)) x_i^2.
double ellipsoid(const std::vector<double>& x) {
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) total += std::pow(10, 6 * static_cast<double>(i) / static_cast<double>(x.size() - 1)) * x[i] * x[i];
  return total;
}

/// Generations on an ellipsoid in 100 dimensions, whose covariance is still adapting at the end. The baseline decomposes a full covariance and draws
/// lambda samples from it; in this many dimensions that is due in every generation.
void measure_cma(const Contest& contest) {
  constexpr Eigen::Index n = 100;
  const Space space = cube(n);
  CmaEs cma(space, {}, 1);
  const auto lambda = static_cast<int64_t>(cma.state().lambda);
  int64_t trial = 0;
  const auto generation = [&] {
    for (int64_t i = 0; i < lambda; ++i, ++trial) {
      tw::CounterRng random(1, static_cast<uint64_t>(trial));
      const Proposal proposal = cma.ask({}, random);
      cma.tell({.trial = trial, .values = proposal.values, .loss = ellipsoid(proposal.values), .state = TrialState::complete, .tag = proposal.tag});
    }
  };

  tw::CounterRng random(2);
  Eigen::MatrixXd covariance(n, n);
  for (double& each : covariance.reshaped()) each = normal(random);
  covariance = (covariance * covariance.transpose()).eval();
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(n);
  Eigen::VectorXd z(n);
  Eigen::VectorXd x(n);
  const auto linear_algebra = [&] {
    solver.compute(covariance);
    for (int64_t i = 0; i < lambda; ++i) {
      for (Eigen::Index k = 0; k < n; ++k) z[k] = std::sqrt(solver.eigenvalues()[k]) * normal(random);
      x.noalias() = solver.eigenvectors() * z;
    }
  };

  const bool is_ours = contest.is_ours();
  tw::benchmark::compare(contest, {.benchmark = "search/cma",
                                   .name = "ellipsoid_100d",
                                   .baseline = "decomposition_and_samples",
                                   .step = is_ours ? std::function<void()>(generation) : linear_algebra,
                                   .units = static_cast<double>(lambda)});
  if (is_ours) TW_EXPECTS(cma.state().restarts == 0, "the run is over before it is measured");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "rate";
  if (what == "cma") return tw::benchmark::run(argc, argv, measure_cma);
  return tw::benchmark::run(argc, argv, what == "busy" ? measure_busy : measure_rate, 1);
}
