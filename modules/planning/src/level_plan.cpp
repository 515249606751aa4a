// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/level_plan.hpp>

#include <algorithm>
#include <numeric>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/base/text_stream.hpp>

namespace tw::layer_parallel {
namespace {

/// Block ends for equal costs: as even as whole units allow; the first block is never empty.
std::vector<int64_t> cut_evenly(int64_t units, int ranks) {
  std::vector<int64_t> cuts;
  for (int64_t rank = 0; rank <= ranks; ++rank) cuts.push_back(divide_up(units * rank, ranks));
  return cuts;
}

/// Block ends by cost: each as close as possible to its share of the total, with at least one unit per rank.
std::vector<int64_t> cut_by_cost(const std::vector<double>& costs, int ranks) {
  const auto units = static_cast<int64_t>(costs.size());
  std::vector<double> sums(costs.size() + 1, 0);
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  std::vector<int64_t> cuts{0};
  for (int rank = 1; rank < ranks; ++rank) {
    const double share = sums.back() * rank / ranks;
    const auto above = std::lower_bound(sums.begin(), sums.end(), share);
    const bool below_is_nearer = above != sums.begin() && share - *(above - 1) < *above - share;
    const int64_t nearest = above - sums.begin() - (below_is_nearer ? 1 : 0);
    cuts.push_back(std::clamp(nearest, std::min(cuts.back() + 1, units), std::max<int64_t>(units - (ranks - rank), 0)));
  }
  cuts.push_back(units);
  return cuts;
}

}  // namespace

void visit(LevelOptions& options, OptionVisitor& visitor) {
  visitor.field("levels", options.levels, at_least(1), {.meaning = "largest number of levels; 1: serial"});
  visit_field(visitor, "coarsening", options.coarsening, at_least(2, any_count), {.meaning = "points of a level per point of the next, by level"});
  visitor.field("min_coarse", options.min_coarse, at_least(1, any_count), {.meaning = "smallest number of steps of a level", .unit = "steps"});
}

void LevelOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(!coarsening.values().empty(), "coarsening needs at least one value");
}

std::vector<Level> plan_levels(int64_t steps, const LevelOptions& options) {
  options.validate();
  TW_EXPECTS(steps >= 1, "at least one step is needed, got ", steps);
  std::vector<Level> levels{{.steps = steps}};
  while (static_cast<int>(levels.size()) < options.levels) {
    Level& fine = levels.back();
    const int64_t c = options.coarsening.at(static_cast<int>(levels.size()) - 1);
    if (fine.steps / c < options.min_coarse) break;
    fine.coarsening = c;
    const Level coarse{.steps = fine.steps / c, .stride = fine.stride * c};
    levels.push_back(coarse);
  }
  return levels;
}

int64_t steps_on_grid(int64_t steps, const LevelOptions& options) {
  const Level fine = plan_levels(steps, options).front();
  return fine.coarsest() ? steps : steps - steps % fine.coarsening;
}

std::vector<int64_t> partition_steps(int64_t steps, int ranks, int64_t unit, std::span<const double> costs) {
  TW_EXPECTS(ranks >= 1 && unit >= 1, "the number of ranks and the unit must be at least 1, got ", ranks, " and ", unit);
  TW_EXPECTS(costs.empty() || static_cast<int64_t>(costs.size()) == steps, costs.size(), " costs for ", steps, " steps: expected one cost per step");
  if (steps / unit < ranks) unit = 1;
  const int64_t units = std::max<int64_t>(steps / unit, 1);
  std::vector<int64_t> cuts;
  if (costs.empty() || units < ranks) {
    cuts = cut_evenly(units, ranks);
  } else {
    std::vector<double> sums(static_cast<size_t>(units), 0);  // remaining steps belong to the last unit
    for (int64_t k = 0; k < steps; ++k) sums[static_cast<size_t>(std::min(k / unit, units - 1))] += costs[static_cast<size_t>(k)];
    cuts = cut_by_cost(sums, ranks);
  }
  for (int64_t& cut : cuts) cut = cut == units ? steps : cut * unit;
  return cuts;
}

LevelPlan::LevelPlan(std::vector<Level> levels, std::vector<int64_t> cuts, StepOwner owner)
    : levels_(std::move(levels)), cuts_(std::move(cuts)), owner_(owner) {
  TW_EXPECTS(!levels_.empty() && cuts_.size() >= 2 && cuts_.front() == 0 && cuts_.back() == levels_.front().steps &&
                 std::is_sorted(cuts_.begin(), cuts_.end()),
             "cuts must rise from 0 to the number of steps");
}

int LevelPlan::rank_of(int64_t fine_step) const {
  return static_cast<int>(std::upper_bound(cuts_.begin(), cuts_.end(), fine_step) - cuts_.begin()) - 1;
}

int LevelPlan::executor(int level, int64_t step) const {
  const int64_t stride = this->level(level).stride;
  return rank_of(owner_ == StepOwner::left ? step * stride : (step + 1) * stride - 1);
}

int LevelPlan::home(int level, int64_t point) const { return rank_of(std::max<int64_t>(point * this->level(level).stride - 1, 0)); }

LevelPlan::Range LevelPlan::steps_of(int level, int rank) const {
  const Level& here = this->level(level);
  const auto first_from = [&](int64_t cut) {
    return std::min(owner_ == StepOwner::left ? divide_up(cut, here.stride) : divide_up(cut + 1, here.stride) - 1, here.steps);
  };
  return {first_from(cuts_.at(static_cast<size_t>(rank))), first_from(cuts_.at(static_cast<size_t>(rank) + 1))};
}

LevelPlan::Range LevelPlan::points_of(int level, int rank) const {
  const int64_t stride = this->level(level).stride;
  const int64_t points = this->level(level).steps + 1;
  const auto first_from = [&](int64_t cut) { return cut == 0 ? 0 : std::min(divide_up(cut + 1, stride), points); };
  const int64_t end = cuts_.at(static_cast<size_t>(rank) + 1);
  return {first_from(cuts_.at(static_cast<size_t>(rank))), end == cuts_.back() ? points : first_from(end)};
}

LevelPlan::Points LevelPlan::c_points_of(int level, int rank) const {
  const Level& grid = this->level(level);
  const Range points = points_of(level, rank);
  const int64_t spacing = grid.coarsest() ? grid.steps + 1 : grid.coarsening;
  const int64_t first = divide_up(points.begin, spacing) * spacing;
  return {first, first < points.end ? divide_up(points.end - first, spacing) : 0, spacing};
}

std::string LevelPlan::describe() const {
  constexpr int64_t widest = 100;  // most points in a picture
  TextWriter out;
  for (int l = 0; l < levels(); ++l) {
    const Level& level = this->level(l);
    out << "level " << l << ": " << level.steps << " steps of " << level.stride;
    if (!level.coarsest()) out << ", every " << level.coarsening << "th point a C-point";
    out << '\n';
    if (levels_.front().steps > widest) continue;
    std::string points(static_cast<size_t>(levels_.front().steps) + 1, ' ');
    for (int64_t k = 0; k <= level.steps; ++k) points[static_cast<size_t>(k * level.stride)] = level.is_c_point(k) || level.coarsest() ? 'C' : '.';
    out << "  " << points << '\n';
  }
  if (levels_.front().steps <= widest) {
    out << "  ";
    for (int64_t k = 0; k <= levels_.front().steps; ++k) out << home(0, k) % 10;
    out << "  the rank that stores the point\n";
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    out << "rank " << rank << ": steps";
    for (int l = 0; l < levels(); ++l) out << (l == 0 ? " " : ", ") << steps_of(l, rank).size();
    out << (levels() > 1 ? " by level\n" : "\n");
  }
  return std::move(out).str();
}

LevelPlan level_plan(int64_t steps, int ranks, const LevelOptions& options, StepOwner owner, std::span<const double> costs) {
  std::vector<Level> levels = plan_levels(steps, options);
  const int64_t unit = std::max<int64_t>(levels.front().coarsening, 1);
  return {std::move(levels), partition_steps(steps, ranks, unit, costs), owner};
}

LevelPlan mirrored(const LevelPlan& plan) {
  std::vector<Level> levels;
  for (int l = 0; l < plan.levels(); ++l) levels.push_back(plan.level(l));
  std::vector<int64_t> cuts;
  for (const int64_t cut : plan.cuts()) cuts.push_back(plan.cuts().back() - cut);
  std::reverse(cuts.begin(), cuts.end());
  return {std::move(levels), std::move(cuts), plan.owner() == StepOwner::left ? StepOwner::right : StepOwner::left};
}

}  // namespace tw::layer_parallel
