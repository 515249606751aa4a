// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/tpe.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "answers.hpp"
#include "parzen.hpp"
#include "values_set.hpp"

namespace tw::search {
void visit(TpeOptions& options, OptionVisitor& visitor) {
  visitor.field("startup", options.startup, at_least(1), {.meaning = "initial trials, sampled uniformly"});
  visitor.field("good_share", options.good_share, {.least = 0, .most = 1, .excludes_least = true},
                {.meaning = "share of the trials with a loss that count as good"});
  visitor.field("most_good", options.most_good, at_least(1), {.meaning = "largest number of good trials"});
  visitor.field("candidates", options.candidates, at_least(1, 1 << 20), {.meaning = "candidates sampled for each proposal"});
  visitor.field("bandwidth", options.bandwidth, {.least = 0, .most = 10, .excludes_least = true},
                {.meaning = "bandwidth for numbers, as a multiple of Scott's rule"});
  visitor.field("uniform_share", options.uniform_share, {.least = 0, .excludes_least = true, .excludes_most = true},
                {.meaning = "weight of the uniform density, relative to the weight of a trial"});
}

size_t TpeOptions::good_of(size_t n) const noexcept {
  return std::clamp(static_cast<size_t>(std::ceil(good_share * static_cast<double>(n))), size_t{1}, most_good);
}

void TpeOptions::validate() const { expect_none(out_of_bounds("tpe", *this)); }

namespace {

constexpr int rounds = 10;           // rounds of candidates, until one is new and feasible
constexpr int rounds_near_good = 5;  // first rounds, near good trials; later rounds are uniform

/// log(m + 1) - log(r), scaled to a mean of 1.
std::vector<double> weights_by_rank(size_t m) {
  std::vector<double> weights;
  for (size_t r = 1; r <= m; ++r) weights.push_back(std::log(static_cast<double>(m + 1)) - std::log(static_cast<double>(r)));
  const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(m);
  for (double& weight : weights) weight /= mean;
  return weights;
}

class ParzenSearch final : public Propagator {
 public:
  ParzenSearch(const Space& space, TpeOptions options)
      : axes_(space), options_(options), anything_(axes_, {}, {}, options.bandwidth, options.uniform_share), good_(anything_), bad_(anything_) {
    options.validate();
  }

  Proposal ask(const Population& /*population*/, CounterRng& random) override {
    const Tag tag{.generation = static_cast<int32_t>(asked_++ & INT32_MAX)};
    Proposal proposal{.values = next(random), .tag = tag};
    known_.insert(proposal.values);
    flying_.push_back({.proposal = proposal, .coordinates = axes_.coordinates_of(proposal.values)});
    return proposal;
  }

  void tell(const Individual& individual) override {
    if (individual.state == TrialState::running) return;
    const auto own = std::ranges::find_if(flying_, [&](const Flying& each) { return answers(individual, each.proposal); });
    if (own != flying_.end()) flying_.erase(own);
    known_.insert(individual.values);
    Ended ended{.coordinates = axes_.coordinates_of(individual.values), .standing = individual.standing()};
    if (individual.has_comparable_loss() || individual.has_known_violation()) {
      ranked_.insert(std::ranges::upper_bound(ranked_, ended.standing, {}, &Ended::standing), std::move(ended));
    } else {
      lost_.push_back(std::move(ended));
    }
  }

 private:
  struct Ended {
    std::vector<double> coordinates;
    Standing standing;
  };
  struct Flying {
    Proposal proposal;
    std::vector<double> coordinates;
  };
  struct Candidate {
    std::vector<double> values;
    double score;
  };

  std::vector<double> next(CounterRng& random) {
    const Space& space = axes_.space();
    if (!ranked_.empty() && ranked_.size() + lost_.size() + flying_.size() >= options_.startup) fit_densities(options_.good_of(ranked_.size()));
    std::vector<double> feasible;
    for (int round = 0; round < rounds; ++round) {
      const Parzen& source = round < rounds_near_good ? good_ : anything_;
      for (Candidate& candidate : candidates_of(source, random)) {
        if (!space.violated(candidate.values).empty()) continue;
        if (!known_.contains(candidate.values)) return std::move(candidate.values);
        if (feasible.empty()) feasible = std::move(candidate.values);
      }
    }
    return feasible.empty() ? good_.sample(random) : feasible;
  }

  /// Candidates sorted by density ratio, largest first.
  std::vector<Candidate> candidates_of(const Parzen& source, CounterRng& random) const {
    std::vector<Candidate> candidates;
    while (candidates.size() < options_.candidates) {
      std::vector<double> values = source.sample(random);
      const std::vector<double> x = axes_.coordinates_of(values);
      candidates.push_back({std::move(values), good_.log_density(x) - bad_.log_density(x)});
    }
    std::ranges::stable_sort(candidates, std::greater{}, &Candidate::score);
    return candidates;
  }

  /// @param m number of good trials
  void fit_densities(size_t m) {
    Parzen::Centres centres;
    for (size_t i = 0; i < m; ++i) centres.push_back(&ranked_[i].coordinates);
    good_.fit(centres, weights_by_rank(m), options_.bandwidth, options_.uniform_share);
    centres.clear();
    for (size_t i = m; i < ranked_.size(); ++i) centres.push_back(&ranked_[i].coordinates);
    for (const Ended& each : lost_) centres.push_back(&each.coordinates);
    for (const Flying& each : flying_) centres.push_back(&each.coordinates);
    bad_.fit(centres, std::vector<double>(centres.size(), 1), options_.bandwidth, options_.uniform_share);
  }

  KernelAxes axes_;
  TpeOptions options_;
  Parzen anything_;             // uniform
  Parzen good_;                 // also uniform until there are results
  Parzen bad_;                  // also uniform until there are results
  std::vector<Ended> ranked_;   // best first; equal losses in the order of arrival
  std::vector<Ended> lost_;     // trials without a loss
  std::vector<Flying> flying_;  // proposals of this worker without a result
  ValuesSet known_;             // values of all of these
  uint32_t asked_ = 0;
};

}  // namespace

Tpe::Tpe(const Space& space, TpeOptions options) : Facade(std::make_unique<ParzenSearch>(space, options)) {}

}  // namespace tw::search
