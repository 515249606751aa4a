// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/distinct.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <tw/base/contract.hpp>
#include <unordered_map>
#include <utility>

#include "neighbours.hpp"
#include "values_set.hpp"

namespace tw::search {
namespace {

constexpr int attempts = 10;
constexpr size_t max_places = 2000;

/// Number of configurations of the space; infinite for a continuum, and for conditional parameters, which are not counted.
double count_of(const Space& space) {
  double count = 1;
  for (const Parameter& p : space.parameters()) {
    count *= p.count() > 0 && p.parent.empty() ? static_cast<double>(p.count()) : std::numeric_limits<double>::infinity();
  }
  return count;
}

class Avoiding final : public Propagator {
 public:
  Avoiding(const Space& space, std::unique_ptr<Propagator> other) : space_(space), other_(std::move(other)), count_(count_of(space)) {
    TW_EXPECTS(other_ != nullptr, "Distinct needs a propagator, got null");
    for (size_t i = 0; i < space.size(); ++i) {
      if (space.parameters()[i].count() == 0) continua_.push_back(i);
    }
    is_continuous_ = std::ranges::any_of(continua_, [&](size_t i) { return space.parameters()[i].parent.empty(); });
  }

  Proposal ask(const Population& population, CounterRng& random) override {
    Proposal proposal = other_->ask(population, random);
    if (is_continuous_) return proposal;
    for (int attempt = 0; attempt < attempts && is_known(proposal.values) && !is_exhausted(); ++attempt) {
      answer(proposal);
      proposal = other_->ask(population, random);
    }
    if (is_known(proposal.values) && !is_exhausted()) {
      if (auto unknown = nearest_unknown(proposal.values, random)) {
        answer(proposal);
        proposal.values = *std::move(unknown);
      }
    }
    if (is_countable(proposal.values)) known_.try_emplace(proposal.values);
    return proposal;
  }

  void tell(const Individual& individual) override {
    other_->tell(individual);
    if (is_continuous_ || individual.state == TrialState::running || !is_countable(individual.values)) return;
    Known& known = known_[individual.values];
    known.result = individual;
    for (const Tag& tag : std::exchange(known.waiting, {})) tell_as(individual, tag);
  }

 private:
  struct Known {
    std::optional<Individual> result = {};  // none: still in flight
    std::vector<Tag> waiting = {};          // tags of proposals that wait for the same result
  };

  bool is_countable(const std::vector<double>& values) const {
    return std::ranges::all_of(continua_, [&](size_t i) { return std::isnan(values[i]); });
  }
  bool is_known(const std::vector<double>& values) const { return known_.contains(values); }
  bool is_exhausted() const { return static_cast<double>(known_.size()) >= count_; }

  void answer(const Proposal& proposal) {
    Known& known = known_.at(proposal.values);
    if (known.result) {
      tell_as(*known.result, proposal.tag);
    } else {
      known.waiting.push_back(proposal.tag);
    }
  }

  void tell_as(Individual individual, const Tag& tag) {
    individual.tag = tag;
    other_->tell(individual);
  }

  /// Breadth-first search.
  std::optional<std::vector<double>> nearest_unknown(const std::vector<double>& from, CounterRng& random) {
    ValuesSet seen{from};
    std::deque<std::vector<double>> frontier{from};
    std::optional<std::vector<double>> found;
    const auto looks_at = [&](std::vector<double> values) {
      if (!seen.insert(values).second) return false;
      if (!is_known(values) && space_.violated(values).empty()) {
        found = std::move(values);
        return true;
      }
      if (is_countable(values)) frontier.push_back(std::move(values));
      return seen.size() > max_places;
    };
    while (!frontier.empty() && !any_neighbour(space_, frontier.front(), random, looks_at)) frontier.pop_front();
    if (frontier.empty()) count_ = static_cast<double>(known_.size());  // no other configuration exists
    return found;
  }

  Space space_;
  std::unique_ptr<Propagator> other_;
  std::vector<size_t> continua_;  // continuous parameters
  bool is_continuous_ = false;
  double count_;
  std::unordered_map<std::vector<double>, Known, ValuesHash, ValuesEqual> known_;
};

}  // namespace

Distinct::Distinct(const Space& space, std::unique_ptr<Propagator> other) : Facade(std::make_unique<Avoiding>(space, std::move(other))) {}

}  // namespace tw::search
