// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/population_training.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <tw/base/contract.hpp>
#include <tw/evolution/draws.hpp>

namespace tw::search {
namespace {

constexpr int max_attempts = 10;

double drawn(const Space& space, size_t index, CounterRng& random) {
  const Parameter& p = space.parameters()[index];
  const double u = uniform(random);
  return p.kind == Parameter::Kind::categorical ? std::floor(u * static_cast<double>(p.choices.size())) : space.from_unit(index, u);
}

double perturbed(const Parameter& p, double value, const PopulationTrainingOptions& options, CounterRng& random) {
  const bool rises = bernoulli(random, 0.5);
  const double moved = value * (rises ? options.up : options.down);
  switch (p.kind) {
    case Parameter::Kind::real: return moved;
    case Parameter::Kind::integer: return std::round(moved) == value ? value + (rises ? 1 : -1) : std::round(moved);
    case Parameter::Kind::ordinal: return value + (rises ? 1 : -1);
    case Parameter::Kind::categorical: break;
  }
  return value;
}

}  // namespace

void visit(PopulationTrainingOptions& training, OptionVisitor& visitor) {
  visitor.field("interval", training.interval, at_least(1),
                {.meaning = "steps between two comparisons of a member with the others", .unit = "steps"});
  visitor.field("max_steps", training.max_steps, at_least(1), {.meaning = "steps after which a member is no longer compared", .unit = "steps"});
  visitor.field("quantile", training.quantile, {.least = 0, .most = 0.5, .excludes_least = true},
                {.meaning = "share of members at the bottom, at least one, that copy the same number at the top"});
  visitor.field("resample", training.resample, {.least = 0, .most = 1}, {.meaning = "probability that a value of a copy is sampled again"});
  visitor.field("up", training.up, {.least = 1, .most = 1e6}, {.meaning = "factor by which a number of a copy increases if it is not sampled again"});
  visitor.field("down", training.down, {.least = 0, .most = 1, .excludes_least = true},
                {.meaning = "factor by which a number of a copy decreases if it is not sampled again; `up` or `down` is chosen at random"});
  visitor.field("frozen", training.frozen,
                {.meaning = "parameters that a copy keeps from its original, such as a width that determines tensor shapes"});
}

void PopulationTrainingOptions::validate(const Space& space) const {
  expect_none(out_of_bounds("population_training", *this));
  TW_EXPECTS(max_steps >= interval, "population_training.max_steps must be at least interval, ", interval, ", got ", max_steps);
  for (const std::string& name : frozen) space.index_of(name);
}

void PopulationTraining::observe(const Report& report) {
  auto& curve = curves_[report.trial];
  if (curve.empty() || curve.back().first < report.step) curve.emplace_back(report.step, report.value);
}

bool PopulationTraining::is_due(const Report& report) const {
  const auto& curve = curves_.at(report.trial);
  if (curve.back().first != report.step || is_at_end(report)) return false;
  const int64_t before = curve.size() > 1 ? curve[curve.size() - 2].first : 0;
  return report.step / options_.interval > before / options_.interval;
}

std::optional<int64_t> PopulationTraining::original_for(const Report& report, CounterRng& random) const {
  const auto step_of = [](const std::pair<int64_t, double>& each) { return each.first; };
  const auto& own_curve = curves_.at(report.trial);
  const auto ago = std::ranges::upper_bound(own_curve, report.step - options_.interval, {}, step_of);
  const int64_t earliest = ago == own_curve.begin() ? 0 : std::prev(ago)->first;
  const uint64_t draw = random();
  std::vector<std::tuple<bool, double, uint64_t, int64_t>> ranks;  // diverged trials are last, and ties are broken at random
  for (const auto& [trial, curve] : curves_) {
    const auto behind = std::ranges::upper_bound(curve, report.step, {}, step_of);
    if (behind == curve.begin() || std::prev(behind)->first < earliest) continue;
    const double value = std::prev(behind)->second;
    const bool diverged = !std::isfinite(value);
    ranks.emplace_back(diverged, diverged ? 0 : value, derived_seed(draw, static_cast<uint64_t>(trial)), trial);
  }
  if (ranks.size() < 2) return std::nullopt;
  std::ranges::sort(ranks);
  const size_t n = std::max<size_t>(1, static_cast<size_t>(options_.quantile * static_cast<double>(ranks.size())));
  const auto own = std::ranges::find(ranks, report.trial, [](const auto& each) { return std::get<int64_t>(each); });
  if (!std::get<bool>(*own) && ranks.end() - own > static_cast<int64_t>(n)) return std::nullopt;
  std::vector<int64_t> originals;
  for (auto each = ranks.begin(); each != own && !std::get<bool>(*each) && originals.size() < n; ++each) {
    if (!ended_.contains(std::get<int64_t>(*each))) originals.push_back(std::get<int64_t>(*each));
  }
  if (originals.empty()) return std::nullopt;
  return originals[index_below(random, originals.size())];
}

std::vector<double> explored(const Space& space, const std::vector<double>& values, const PopulationTrainingOptions& options, CounterRng& random) {
  std::vector<bool> stays(space.size(), false);
  for (const std::string& name : options.frozen) stays[space.index_of(name)] = true;
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    std::vector<double> tried = values;
    for (size_t i = 0; i < tried.size(); ++i) {
      if (!space.exists(i, tried)) {
        tried[i] = std::numeric_limits<double>::quiet_NaN();
      } else if (std::isnan(tried[i])) {
        tried[i] = drawn(space, i, random);
      } else if (!stays[i]) {
        tried[i] = bernoulli(random, options.resample) ? drawn(space, i, random) : perturbed(space.parameters()[i], tried[i], options, random);
      }
    }
    space.repair(tried);
    if (space.violated(tried).empty()) return tried;
  }
  return values;
}

}  // namespace tw::search
