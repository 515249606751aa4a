// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/l_shade.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/evolution/draws.hpp>

#include "answers.hpp"
#include "dimension_limit.hpp"
#include "success_history.hpp"

namespace tw::search {
namespace {

constexpr size_t least_members = 4;

size_t first_size(const LShadeOptions& options, size_t dimensions) {
  if (options.population > 0) return options.population;
  const size_t usual = 18 * dimensions;
  return std::max<size_t>(10, options.evaluations > 0 ? std::min(usual, static_cast<size_t>(options.evaluations / 10)) : usual);
}

}  // namespace

void visit(LShadeOptions& options, OptionVisitor& visitor) {
  visitor.field("population", options.population, count_from(0), {.meaning = "members at first; 0: 18 for each dimension"});
  visitor.field("evaluations", options.evaluations, count_from(0, any_count), {.meaning = "over which the population shrinks; 0: it does not"});
  visitor.field("memory", options.memory, count_from(1, 1 << 20), {.meaning = "entries of the history of successes"});
  visitor.field("greediness", options.greediness, {.least = 0, .most = 1, .above = true}, {.meaning = "the share of the best that are moved to"});
  visitor.field("archive", options.archive, {.least = 0, .most = 100}, {.meaning = "replaced members that are kept, over the population"});
}

void LShadeOptions::validate() const {
  expect_none(out_of_bounds("l_shade", *this));
  TW_EXPECTS(population == 0 || population >= least_members, "a population has 4 members at least, or 0 for the default, got ", population);
}

class LShade::Core {
 public:
  Core(const Space& space, LShadeOptions options)
      : space_(space), options_(options), history_(options.memory), first_size_(first_size(options, space.dimensions())), size_(first_size_) {}

  Proposal ask(CounterRng& random) {
    Trial trial;
    trial.proposal.tag = {.generation = generation_, .index = -1};
    const bool begins = begun_ < first_size_;
    if (begins || members_.size() < least_members) {
      begun_ += begins ? 1 : 0;
      for (size_t d = 0; d < space_.dimensions(); ++d) trial.position.push_back(uniform(random));
    } else {
      next_ = next_ % members_.size();
      const Member& target = members_[next_++];
      trial.target = target.id;
      trial.drawn = history_.draw(random);
      trial.position = child(target, trial.drawn, random);
      trial.proposal.tag.index = static_cast<int32_t>(target.id & INT32_MAX);
    }
    trial.proposal.values = space_.decode(trial.position);
    in_flight_.push_back(trial);
    return trial.proposal;
  }

  void tell(const Individual& individual) {
    if (individual.state == TrialState::running) return;
    ++told_;
    const auto found = std::ranges::find_if(in_flight_, [&](const Trial& each) { return answers(individual, each.proposal); });
    std::optional<Trial> trial;
    if (found != in_flight_.end()) {
      trial = std::move(*found);
      in_flight_.erase(found);
    }
    if (individual.counts() || individual.violates()) {
      trial ? select(std::move(*trial), individual.standing()) : enter({next_id_++, space_.encode(individual.values), individual.standing()});
    }
    if (options_.evaluations > 0) shrink(reduced_size(first_size_, least_members, told_, options_.evaluations));
    if (members_.size() < size_ || ++results_ < size_) return;
    results_ = 0;
    history_.update();
    generation_ = (generation_ + 1) & INT32_MAX;
  }

  size_t members() const noexcept { return members_.size(); }

 private:
  struct Member {
    int64_t id;
    std::vector<double> position;
    Standing standing;
  };
  struct Trial {
    Proposal proposal = {};
    std::vector<double> position = {};
    int64_t target = -1;  // none: random
    SuccessHistory::Entry drawn = {};
  };

  std::vector<double> child(const Member& target, const SuccessHistory::Entry& drawn, CounterRng& random) const {
    const size_t n = members_.size();
    const auto greedy = std::max<size_t>(2, static_cast<size_t>(std::round(options_.greediness * static_cast<double>(n))));
    std::vector<size_t> order(n);
    for (size_t i = 0; i < n; ++i) order[i] = i;
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(greedy), {},
                              [&](size_t i) { return std::pair(members_[i].standing, members_[i].id); });
    const Member& best = members_[order[index_below(random, greedy)]];
    const Member* first = &target;
    while (first == &target) first = &members_[index_below(random, n)];
    const std::vector<double>* second = &target.position;
    while (second == &target.position || second == &first->position) {
      const size_t index = index_below(random, n + archive_.size());
      second = index < n ? &members_[index].position : &archive_[index - n];
    }
    const size_t certain = index_below(random, target.position.size());
    std::vector<double> position = target.position;
    for (size_t d = 0; d < position.size(); ++d) {
      if (d != certain && uniform(random) > drawn.crossover) continue;
      const double x = target.position[d];
      const double moved = x + drawn.factor * (best.position[d] - x) + drawn.factor * (first->position[d] - (*second)[d]);
      position[d] = moved < 0 ? x / 2 : moved > 1 ? (x + 1) / 2 : moved;
    }
    return position;
  }

  void select(Trial trial, const Standing& standing) {
    const auto target = std::ranges::find(members_, trial.target, &Member::id);
    if (target == members_.end()) return enter({next_id_++, std::move(trial.position), standing});
    if (!(standing <= target->standing)) return;
    if (standing < target->standing) {
      const double gained = gain(target->standing, standing);
      keep(std::move(target->position));
      if (std::isfinite(gained)) history_.succeed(trial.drawn, gained);
    }
    target->position = std::move(trial.position);
    target->standing = standing;
  }

  /// As a new member, or in place of the worst one if it is better.
  void enter(Member member) {
    if (members_.size() < size_) {
      members_.push_back(std::move(member));
      return;
    }
    const auto worst = std::ranges::max_element(members_, {}, &Member::standing);
    if (member.standing < worst->standing) *worst = std::move(member);
  }

  void keep(std::vector<double> position) {
    archive_.push_back(std::move(position));
    trim();
  }

  /// Members leave from the worst on; the oldest leave the archive.
  void shrink(size_t size) {
    size_ = size;
    while (members_.size() > size_) members_.erase(std::ranges::max_element(members_, {}, &Member::standing));
    trim();
  }

  void trim() {
    const auto most = static_cast<size_t>(options_.archive * static_cast<double>(size_));
    if (archive_.size() > most) archive_.erase(archive_.begin(), archive_.end() - static_cast<std::ptrdiff_t>(most));
  }

  const Space& space_;
  LShadeOptions options_;
  SuccessHistory history_;
  size_t first_size_;
  size_t size_;  // that there may be now
  std::vector<Member> members_;
  std::vector<std::vector<double>> archive_;
  std::vector<Trial> in_flight_;
  size_t begun_ = 0;  // random ones
  size_t next_ = 0;   // target
  int64_t next_id_ = 0;
  int64_t told_ = 0;
  size_t results_ = 0;  // since the last update
  int32_t generation_ = 0;
};

LShade::LShade(const Space& space, LShadeOptions options) {
  options.validate();
  expect_few_dimensions(space, 2000, "L-SHADE");
  core_ = std::make_unique<Core>(space, options);
}

LShade::~LShade() = default;

Proposal LShade::ask(const Population& /*population*/, CounterRng& random) { return core_->ask(random); }

void LShade::tell(const Individual& individual) { core_->tell(individual); }

size_t LShade::members() const noexcept { return core_->members(); }

}  // namespace tw::search
