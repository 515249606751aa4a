// SPDX-License-Identifier: Apache-2.0
#include "separable_search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <numbers>
#include <set>
#include <tw/evolution/draws.hpp>
#include <vector>

#include "values_set.hpp"

namespace tw::search {
namespace separable_search_test {

constexpr double infinity = std::numeric_limits<double>::infinity();

using Function = std::function<double(double)>;

std::vector<double> places_of(IntervalSearch& search, const Function& g, int count) {
  std::vector<double> places;
  for (int i = 0; i < count; ++i) {
    const auto place = search.next();
    if (!place) break;
    places.push_back(*place);
    search.know(*place, g(*place));
  }
  return places;
}

double waves(double x, double least) {
  const double z = 10 * (x - least);
  return z * z - 10 * std::cos(2 * std::numbers::pi * z) + 10;
}

IntervalSearch on_reals() {
  return IntervalSearch([](double x) { return x; });
}

// The least is g(0) = 0. (sqrt(0) + sqrt(4)) / (1/4) = 8 on the left, (sqrt(4) + sqrt(g(1))) / (3/4) = 8 for g(1) = 16 on the right. The least place
// is an end, and no vertex of three.
TEST(IntervalSearch, SplitsWhereAParabolaNeedBendLeast) {
  for (const bool is_left : {false, true}) {
    IntervalSearch search = on_reals();
    EXPECT_EQ(search.next(), 0);
    EXPECT_EQ(search.next(), 1);
    search.know(0, 0);
    search.know(1, is_left ? 17 : 15);
    search.know(0.25, 4);
    EXPECT_EQ(search.next(), is_left ? 0.125 : 0.625);
    EXPECT_EQ(search.next(), is_left ? 0.625 : 0.125) << "the other is in flight";
    EXPECT_EQ(search.next(), std::nullopt);
  }
}

TEST(IntervalSearch, TheSecondBestIsForOthers) {
  IntervalSearch search = on_reals();
  places_of(search, [](double x) { return x == 0 ? 4 : 1; }, 2);
  search.know(0.5, 3);
  EXPECT_EQ(search.next(1), 0.25);
}

// 0, 1 and 1/2; 1/4, every other time; then the vertex of the parabola through 0, 1/4 and 1/2, and nothing else between the last two.
TEST(IntervalSearch, TakesTheVertexOfAParabola) {
  IntervalSearch search = on_reals();
  EXPECT_EQ(places_of(search, [](double x) { return (x - 0.37) * (x - 0.37); }, 4), (std::vector{0.0, 1.0, 0.5, 0.25}));
  EXPECT_NEAR(search.next().value(), 0.37, 1e-12);
  EXPECT_EQ(search.next(), 0.75);
}

// Ten waves. Which of them is lowest shows once each is halved, and then 20 places are near it.
TEST(IntervalSearch, FindsTheLowestOfManyMinima) {
  for (const double least : {0.123, 0.4, 0.777, 0.95}) {
    IntervalSearch search = on_reals();
    places_of(search, [&](double x) { return waves(x, least); }, 80);
    EXPECT_NEAR(search.least_place(), least, 1e-7);
  }
}

TEST(IntervalSearch, EndsWhereNoPlaceIsLeft) {
  const auto nearest = [](double x) { return std::round(7 * x) / 7; };
  IntervalSearch search(nearest);
  const auto places = places_of(search, [](double x) { return std::sin(9 * x); }, 100);
  EXPECT_EQ(std::set<double>(places.begin(), places.end()).size(), 8U);
  EXPECT_EQ(places.size(), 8U);
  IntervalSearch many = on_reals();
  EXPECT_EQ(places_of(many, [](double x) { return std::sin(9 * x); }, 600).size(), 500U);
  IntervalSearch one([](double) { return 0.5; });
  EXPECT_EQ(places_of(one, [](double) { return 1; }, 100).size(), 1U);
}

TEST(IntervalSearch, GoesOnWhereThereIsNoLoss) {
  for (const double loss : {infinity, -infinity, 0.0}) {
    IntervalSearch search = on_reals();
    EXPECT_EQ(places_of(search, [=](double x) { return x > 0.6 ? loss : x; }, 50).size(), 50U);
  }
}

using Loss = std::function<double(const std::vector<double>&)>;

Space cube(int n) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < n; ++i) parameters.push_back(real("x" + std::to_string(i), 0, 1));
  return Space(parameters);
}

/// Searches of one problem that are told of all results, from a first individual at 0.3; each proposal ends when `in_flight` are.
struct Together {
  Together(const Space& of, int workers) : space(of) {
    for (int w = 0; w < workers; ++w) searches.emplace_back(space, Share{.first = w, .stride = workers});
  }

  /// @return how often there was something to evaluate, or it was in flight
  int run(const Loss& loss, int most, size_t in_flight = 1) {
    std::vector<double> first;
    for (size_t i = 0; i < space.size(); ++i) first.push_back(space.from_unit(i, 0.3));
    space.repair(first);
    tell(first, loss(first));
    std::deque<std::vector<double>> waiting;
    int asked = 0;
    for (; asked < most; ++asked) {
      const auto values = searches[static_cast<size_t>(asked) % searches.size()].ask(population);
      if (!values && waiting.empty()) break;
      if (values) {
        EXPECT_TRUE(space.contains(*values));
        EXPECT_TRUE(tried.insert(*values).second || searches.size() > 1);
        waiting.push_back(*values);
        if (waiting.size() < in_flight) continue;
      }  // otherwise all is in flight
      tell(waiting.front(), loss(waiting.front()));
      waiting.pop_front();
    }
    for (const auto& values : waiting) tell(values, loss(values));
    return asked;
  }

  void tell(const std::vector<double>& values, double loss) {
    const Individual individual{
        .trial = trials++, .values = values, .loss = loss, .state = std::isnan(loss) ? TrialState::failed : TrialState::complete};
    population.add(individual);
    for (SeparableSearch& each : searches) each.tell(individual);
  }

  const Space& space;
  std::vector<SeparableSearch> searches;
  Population population = {};
  ValuesSet tried = {};
  int64_t trials = 0;
};

double sum_of_waves(const std::vector<double>& x) {
  double sum = 1000;  // an offset changes nothing
  for (size_t i = 0; i < x.size(); ++i) sum += waves(x[i], 0.2 + 0.6 * static_cast<double>(i) / static_cast<double>(x.size()));
  return sum;
}

// 80 places of each, see above, and the first 2 D + 1. To 1e-7 in x it is 2e4 1e-14 in each wave.
TEST(SeparableSearch, FindsTheLeastOfASum) {
  const Space space = cube(4);
  Together alone(space, 1);
  EXPECT_EQ(alone.run(sum_of_waves, 9 + 4 * 80), 9 + 4 * 80);
  EXPECT_NEAR(alone.population.best()->loss, 1000, 1e-8);
}

// Results that come late cost some evaluations.
TEST(SeparableSearch, ManyInFlightAndManyWorkers) {
  const Space space = cube(3);
  Together late(space, 1);
  late.run(sum_of_waves, 600, 12);
  EXPECT_NEAR(late.population.best()->loss, 1000, 1e-8);
  Together many(space, 8);
  many.run(sum_of_waves, 600, 8);
  EXPECT_NEAR(many.population.best()->loss, 1000, 1e-8);
}

// Two in flight, of one parameter each, that both gain.
TEST(SeparableSearch, TriesTogetherWhatSeveralHaveGained) {
  const Space space = cube(2);
  Together alone(space, 1);
  const auto loss = [](const std::vector<double>& x) { return std::abs(x[0] - 0.6) + std::abs(x[1] - 0.6); };
  alone.run(loss, 5);
  SeparableSearch& search = alone.searches.front();
  const auto first = search.ask(alone.population).value();
  const auto second = search.ask(alone.population).value();
  EXPECT_NE(first[0], 0.3);
  EXPECT_NE(second[1], 0.3);
  alone.tell(first, loss(first));
  alone.tell(second, loss(second));
  EXPECT_EQ(search.ask(alone.population), (std::vector{first[0], second[1]}));
}

TEST(SeparableSearch, LeavesWhatIsNoSum) {
  const Space space = cube(4);
  const auto product = [](const std::vector<double>& x) { return sum_of_waves(x) + 0.01 * x[1] * x[3]; };
  EXPECT_EQ(Together(space, 1).run(product, 100), 9);
  CounterRng random(1, 2);
  EXPECT_EQ(Together(space, 1).run([&](const auto& x) { return sum_of_waves(x) + normal(random); }, 100), 9) << "noise";
  EXPECT_EQ(Together(space, 1).run([](const auto&) { return 1; }, 100), 9) << "nothing changes";
  EXPECT_EQ(Together(space, 1).run([](const auto& x) { return x[0] == 0.3 ? 1 : std::nan(""); }, 3), 3) << "failures";
}

// One parameter is a sum of one. What does not exist is no parameter.
TEST(SeparableSearch, OneParameterAlone) {
  const Space space = cube(1);
  Together alone(space, 1);
  alone.run(sum_of_waves, 80);
  EXPECT_NEAR(alone.population.best()->loss, 1000, 1e-8);
  const Space conditional{integer("n", 0, 99), categorical("c", {"a", "b"}), real("x", 0, 1).when("c", {"b"})};
  Together mixed(conditional, 1);
  EXPECT_GT(mixed.run([](const auto& x) { return std::abs(x[0] - 41) + (x[1] == 0 ? 0 : 5); }, 60), 20);
  EXPECT_EQ(mixed.population.best()->loss, 0);
}

TEST(SeparableSearch, KnowsNothingAtFirst) {
  const Space space = cube(2);
  SeparableSearch search(space, {});
  EXPECT_EQ(search.ask({}), std::nullopt);
}

}  // namespace separable_search_test
}  // namespace tw::search
