// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/named_propagators.hpp>

#include <tw/evolution/automatic.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/cma_es.hpp>
#include <tw/evolution/gaussian_process.hpp>
#include <tw/evolution/hybrid.hpp>
#include <tw/evolution/nelder_mead.hpp>
#include <tw/evolution/nsga2.hpp>
#include <tw/evolution/quadratic_trust_region.hpp>
#include <tw/evolution/sampling.hpp>
#include <tw/evolution/swarm.hpp>
#include <tw/evolution/tpe.hpp>

namespace tw::search {
namespace {

using Made = std::unique_ptr<Propagator>;

uint64_t own_seed(uint64_t seed, int worker) { return derived_seed(seed, static_cast<uint64_t>(worker)); }

constexpr NamedPropagator all_propagators[] = {
    {"automatic", "chosen by the space and the budget",
     [](const Space& space, int64_t evaluations, uint64_t seed, int worker, int workers) -> Made {
       return automatic(space, evaluations, seed, worker, workers);
     }},
    {"hybrid", "a trust region, CMA-ES and genetic search combined",
     [](const Space& space, int64_t /*evaluations*/, uint64_t seed, int worker, int workers) -> Made {
       return std::make_unique<Hybrid>(space, seed, Share{.first = worker, .stride = workers});
     }},
    {"quadratic_trust_region", "quadratic models of the loss",
     [](const Space& space, int64_t /*evaluations*/, uint64_t seed, int worker, int workers) -> Made {
       return std::make_unique<QuadraticTrustRegion>(space, QuadraticTrustRegionOptions{}, seed, Share{.first = worker, .stride = workers});
     }},
    {"gaussian_process", "expected improvement on a Gaussian process",
     [](const Space& space, int64_t /*evaluations*/, uint64_t seed, int worker, int /*workers*/) -> Made {
       return std::make_unique<GaussianProcess>(space, GaussianProcessOptions{}, own_seed(seed, worker));
     }},
    {"tpe", "densities of good and of bad configurations",
     [](const Space& space, int64_t /*evaluations*/, uint64_t /*seed*/, int /*worker*/, int /*workers*/) -> Made {
       return std::make_unique<Tpe>(space);
     }},
    {"genetic", "selection, crossover and mutation, after initial uniform samples",
     [](const Space& space, int64_t evaluations, uint64_t /*seed*/, int /*worker*/, int /*workers*/) -> Made {
       return std::make_unique<Breeder>(space, genetic_within(evaluations));
     }},
    {"nsga2", "Pareto fronts of several objectives",
     [](const Space& space, int64_t evaluations, uint64_t /*seed*/, int /*worker*/, int /*workers*/) -> Made {
       return std::make_unique<Nsga2>(space, Nsga2Options::within(evaluations));
     }},
    {"cma_es", "CMA-ES with restarts",
     [](const Space& space, int64_t /*evaluations*/, uint64_t seed, int /*worker*/, int /*workers*/) -> Made {
       return std::make_unique<CmaEs>(space, CmaOptions{}, seed);
     }},
    {"swarm", "a particle swarm",
     [](const Space& space, int64_t /*evaluations*/, uint64_t /*seed*/, int /*worker*/, int /*workers*/) -> Made {
       return std::make_unique<Swarm>(space, canonical_swarm());
     }},
    {"nelder_mead", "a simplex for each worker",
     [](const Space& space, int64_t /*evaluations*/, uint64_t seed, int worker, int /*workers*/) -> Made {
       return std::make_unique<NelderMead>(space, NelderMeadOptions{}, own_seed(seed, worker));
     }},
    {"sobol", "an even cover of the space",
     [](const Space& space, int64_t /*evaluations*/, uint64_t seed, int worker, int workers) -> Made {
       return std::make_unique<Sobol>(space, seed, Share{.first = worker, .stride = workers});
     }},
    {"random", "uniform samples, in each parameter's scale",
     [](const Space& space, int64_t /*evaluations*/, uint64_t /*seed*/, int /*worker*/, int /*workers*/) -> Made {
       return std::make_unique<Breeder>(space, uniform_child());
     }},
};

}  // namespace

std::span<const NamedPropagator> named_propagators() { return all_propagators; }

}  // namespace tw::search
