// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/nelder_mead.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tw/base/contract.hpp>
#include <tw/evolution/draws.hpp>

#include "answers.hpp"
#include "dimension_limit.hpp"

namespace tw::search {
namespace {

/// from + share (to - from), clipped to the unit cube.
std::vector<double> towards(const std::vector<double>& from, const std::vector<double>& to, double share) {
  std::vector<double> position(from.size());
  for (size_t d = 0; d < from.size(); ++d) position[d] = std::clamp(from[d] + share * (to[d] - from[d]), 0.0, 1.0);
  return position;
}

}  // namespace

void visit(NelderMeadOptions& options, OptionVisitor& visitor) {
  const Bounds share{.least = 0, .most = 1, .excludes_least = true, .excludes_most = true};
  visitor.field("reflection", options.reflection, {.least = 0, .excludes_least = true},
                {.meaning = "coefficient of the reflection of the worst vertex at the mean of the others"});
  visitor.field("expansion", options.expansion, {.least = 1, .excludes_least = true},
                {.meaning = "coefficient of the expansion beyond the reflected vertex"});
  visitor.field("contraction", options.contraction, share, {.meaning = "coefficient of the contraction towards the mean of the others"});
  visitor.field("shrinkage", options.shrinkage, share, {.meaning = "coefficient of the shrinkage towards the best vertex"});
  visitor.field("side", options.side, {.least = 0, .most = 0.5},
                {.meaning = "side of the first simplex, as a share of each range; 0: chosen by the number of dimensions"});
  visitor.field("collapsed", options.collapsed, {.least = 0, .excludes_least = true}, {.meaning = "size below which a simplex is abandoned"});
}

double NelderMeadOptions::side_in(size_t dimensions) const noexcept { return side > 0 ? side : std::min(0.5, static_cast<double>(dimensions) / 8); }

void NelderMeadOptions::validate(const Space& space) const {
  expect_none(out_of_bounds("nelder_mead", *this));
  expect_few_dimensions(space, 2000, "a simplex");
  const double first = side_in(space.dimensions());
  TW_EXPECTS(collapsed < first, "nelder_mead.collapsed must be below `side`, ", first, ", got ", collapsed);
  TW_EXPECTS(start.empty() || space.contains(start), "nelder_mead.start is not a valid configuration of the space");
}

NelderMeadOptions adaptive_nelder_mead(size_t dimensions) {
  TW_EXPECTS(dimensions >= 2, "adaptive coefficients need at least 2 dimensions, got ", dimensions);
  const auto n = static_cast<double>(dimensions);
  return {.expansion = 1 + 2 / n, .contraction = 0.75 - 1 / (2 * n), .shrinkage = 1 - 1 / n};
}

NelderMead::NelderMead(const Space& space, NelderMeadOptions options, uint64_t seed) : space_(space), options_(std::move(options)), seed_(seed) {
  options_.validate(space);
  options_.side = options_.side_in(space.dimensions());
  restart();
}

void NelderMead::restart() {
  CounterRng random(seed_, static_cast<uint64_t>(run_));
  std::vector<double> first(space_.dimensions());
  for (double& x : first) x = uniform(random);
  if (run_ == 0 && !options_.start.empty()) first = space_.encode(options_.start);
  if (run_ % 2 == 1 && !best_ever_.position.empty()) first = best_ever_.position;
  std::vector<std::vector<double>> positions(first.size() + 1, first);
  for (size_t d = 0; d < first.size(); ++d) {
    const double side = run_ > 0 && bernoulli(random, 0.5) ? -options_.side : options_.side;
    positions[d + 1][d] += first[d] + side >= 0 && first[d] + side <= 1 ? side : -side;
  }
  simplex_.clear();
  first_spread_ = 0;
  place(std::move(positions));
}

void NelderMead::place(std::vector<std::vector<double>> positions) {
  placing_ = true;
  begin_stage(positions.size());
  for (size_t i = 0; i < positions.size(); ++i) candidates_[i].point.position = std::move(positions[i]);
}

void NelderMead::begin_stage(size_t candidates) {
  for (Candidate& candidate : candidates_) {
    if (candidate.proposal && !candidate.known) dropped_.push_back(std::move(*candidate.proposal));
  }
  candidates_.assign(candidates, {});
  ++stage_;
}

void NelderMead::end_placing() {
  if (!std::ranges::all_of(candidates_, &Candidate::known)) return;
  for (Candidate& candidate : candidates_) simplex_.push_back(std::move(candidate.point));
  placing_ = false;
  begin_move();
}

void NelderMead::begin_move() {
  std::ranges::stable_sort(simplex_, {}, &Point::standing);
  if (first_spread_ == 0) first_spread_ = spread();
  if (has_collapsed() || is_lost_in_noise()) {
    ++run_;
    restart();
    return;
  }
  const size_t n = space_.dimensions();
  std::vector<double> mean(n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t d = 0; d < n; ++d) mean[d] += simplex_[i].position[d] / static_cast<double>(n);
  }
  begin_stage(further);
  candidates_[reflected].point.position = towards(mean, simplex_[n].position, -options_.reflection);
  candidates_[expanded].point.position = towards(mean, candidates_[reflected].point.position, options_.expansion);
  candidates_[inside].point.position = towards(mean, simplex_[n].position, options_.contraction);
  candidates_[outside].point.position = towards(mean, candidates_[reflected].point.position, options_.contraction);
}

Proposal NelderMead::ask(const Population& /*population*/, CounterRng& random) {
  const std::optional<size_t> index = wanted();
  const Tag tag{.run = run_, .generation = static_cast<int32_t>(stage_ & INT32_MAX), .index = index ? static_cast<int32_t>(*index) : -1};
  if (!index) return dropped_.emplace_back(Proposal{.values = space_.decode(random_in_box(random)), .tag = tag});
  Candidate& candidate = candidates_[*index];
  candidate.proposal = Proposal{.values = space_.decode(candidate.point.position), .tag = tag};
  return *candidate.proposal;
}

std::optional<size_t> NelderMead::wanted() {
  const auto open = [&](size_t i) { return !candidates_[i].proposal; };
  if (placing_ || !candidates_[reflected].known) {
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (open(i)) return i;
    }
  } else if (open(needed_after_reflection())) {
    return needed_after_reflection();
  }
  const size_t done = candidates_.size() - further;
  if (placing_ || done + 1 >= space_.dimensions()) return std::nullopt;
  candidates_.push_back({.point = {.position = reflection_of(space_.dimensions() - 1 - done)}});
  return candidates_.size() - 1;
}

size_t NelderMead::needed_after_reflection() const {
  const Standing& standing = candidates_[reflected].point.standing;
  if (standing < simplex_.front().standing) return expanded;
  return standing < simplex_.back().standing ? outside : inside;
}

std::vector<double> NelderMead::reflection_of(size_t rank) const {
  std::vector<double> mean(space_.dimensions(), 0);
  for (size_t i = 0; i < simplex_.size(); ++i) {
    for (size_t d = 0; d < mean.size() && i != rank; ++d) mean[d] += simplex_[i].position[d] / static_cast<double>(mean.size());
  }
  return towards(mean, simplex_[rank].position, -options_.reflection);
}

std::vector<double> NelderMead::random_in_box(CounterRng& random) const {
  std::vector<double> position(space_.dimensions());
  for (size_t d = 0; d < position.size(); ++d) {
    double low = 1;
    double high = 0;
    const auto include = [&](const Point& point) {
      low = std::min(low, point.position[d]);
      high = std::max(high, point.position[d]);
    };
    for (const Point& vertex : simplex_) include(vertex);
    for (const Candidate& candidate : candidates_) include(candidate.point);
    position[d] = uniform(random, low, high);
  }
  return position;
}

void NelderMead::tell(const Individual& individual) {
  const Standing standing = individual.standing();
  const auto index = static_cast<size_t>(individual.tag.index);
  const bool own = individual.tag.index >= 0 && index < candidates_.size() && candidates_[index].proposal && !candidates_[index].known &&
                   answers(individual, *candidates_[index].proposal);
  const auto dropped = std::ranges::find_if(dropped_, [&](const Proposal& proposal) { return answers(individual, proposal); });
  const bool foreign = !own && dropped == dropped_.end();
  if (dropped != dropped_.end()) dropped_.erase(dropped);
  if (standing < best_ever_.standing) best_ever_ = {own ? candidates_[index].point.position : space_.encode(individual.values), standing};
  if (own) {
    candidates_[index].point.standing = standing;
    candidates_[index].known = true;
  }
  if (placing_) {
    if (own) end_placing();
  } else if (own && index < further) {
    decide();
  } else if (standing < simplex_.front().standing) {
    if (own) replace(simplex_.size() - 2 - (index - further), candidates_[index].point);
    if (foreign) replace(simplex_.size() - 1, {space_.encode(individual.values), standing});
  }
}

void NelderMead::decide() {
  const Point& r = candidates_[reflected].point;
  const size_t worst = simplex_.size() - 1;
  if (!candidates_[reflected].known) return;
  if (r.standing >= simplex_.front().standing && r.standing < simplex_[worst - 1].standing) return replace(worst, r);
  const size_t needed = needed_after_reflection();
  const Point& point = candidates_[needed].point;
  if (!candidates_[needed].known) return;
  if (needed == expanded) return replace(worst, point.standing < simplex_.front().standing ? point : r);
  if (needed == outside) simplex_.back() = r;
  if (point.standing < simplex_.back().standing) return replace(worst, point);
  shrink();
}

void NelderMead::replace(size_t rank, Point point) {
  simplex_[rank] = std::move(point);
  begin_move();
}

void NelderMead::shrink() {
  std::vector<std::vector<double>> positions;
  for (size_t i = 1; i < simplex_.size(); ++i) positions.push_back(towards(simplex_.front().position, simplex_[i].position, options_.shrinkage));
  simplex_.resize(1);
  place(std::move(positions));
}

double NelderMead::spread() const {
  const Standing& worst = simplex_.back().standing;
  return worst.is_allowed() ? worst.loss - simplex_.front().standing.loss : std::numeric_limits<double>::infinity();
}

bool NelderMead::lies_within(double side) const {
  const auto near = [&](const Point& vertex) {
    const auto close = [&](double a, double b) { return std::abs(a - b) <= side; };
    return std::ranges::equal(vertex.position, simplex_.front().position, close);
  };
  return std::ranges::all_of(simplex_, near);
}

bool NelderMead::has_collapsed() const { return simplex_.front().standing == simplex_.back().standing || lies_within(options_.collapsed); }

bool NelderMead::is_lost_in_noise() const {
  constexpr double small = 0.1;  // as a share of the initial side
  constexpr double alike = 0.3;  // as a share of the initial spread; for smooth losses the spread shrinks with the simplex
  return std::isfinite(spread()) && spread() > alike * first_spread_ && lies_within(small * options_.side);
}

}  // namespace tw::search
