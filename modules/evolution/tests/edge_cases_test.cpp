// SPDX-License-Identifier: Apache-2.0
// Conditions under which every propagator must continue to propose valid configurations.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/evolution/automatic.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/evolution/distinct.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/named_propagators.hpp>
#include <utility>
#include <vector>

namespace tw::search {
namespace edge_cases_test {

constexpr double infinity = std::numeric_limits<double>::infinity();

Individual ended(const Proposal& proposal, int64_t trial, double loss) {
  const TrialState state = std::isnan(loss) ? TrialState::failed : TrialState::complete;
  return {.trial = trial, .values = proposal.values, .loss = loss, .state = state, .tag = proposal.tag};
}

/// A search, and its trials in flight.
class Course {
 public:
  Course(const Space& space, const NamedPropagator& named, int64_t evaluations, bool distinct = true)
      : space_(space), propagator_(named.make(space, evaluations, 3, 0, 1)), about_(named.name) {
    if (distinct) propagator_ = std::make_unique<Distinct>(space, std::move(propagator_));
  }

  /// @return whether the space allows the proposal
  bool ask() {
    CounterRng random(7, static_cast<uint64_t>(asked_));
    in_flight_.push_back(ended(propagator_->ask(population_, random), asked_++, 0));
    return space_.contains(in_flight_.back().values);
  }
  void tell(Individual individual) {
    population_.add(individual);
    propagator_->tell(individual);
  }
  /// Ends the i-th trial in flight.
  void end(size_t i, double loss) {
    Individual individual = in_flight_[i];
    in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(i));
    tell(ended({individual.values, individual.tag}, individual.trial, loss));
  }
  const std::vector<Individual>& in_flight() const { return in_flight_; }
  const std::string& about() const { return about_; }

 private:
  const Space& space_;
  std::unique_ptr<Propagator> propagator_;
  std::string about_;
  Population population_;
  std::vector<Individual> in_flight_;
  int64_t asked_ = 0;
};

using Loss = std::function<double(const std::vector<double>&, int64_t trial)>;

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double each : values) sum += std::isnan(each) ? 0 : each;
  return sum;
}

/// With one trial at a time, and then with four.
void expect_goes_on(const Space& space, const Loss& loss, int64_t evaluations = 40) {
  for (const NamedPropagator& named : named_propagators()) {
    Course course(space, named, evaluations);
    for (int64_t trial = 0; trial < evaluations; ++trial) {
      EXPECT_TRUE(course.ask()) << course.about() << " in trial " << trial;
      if (course.in_flight().size() < (trial < evaluations / 2 ? 1U : 4U)) continue;
      const Individual& first = course.in_flight().front();
      course.end(0, loss(first.values, first.trial));
    }
  }
}

Space mixed() {
  return {real("lr", 1e-4, 1e-1, log_scale), integer("layers", 2, 10), categorical("kind", {"a", "b"}), real("m", 0, 1).when("kind", {"b"})};
}

TEST(EdgeCases, LossesThatSayNothing) {
  const Space space = mixed();
  expect_goes_on(space, [](const auto&, int64_t) { return 1.5; });
  expect_goes_on(space, [](const auto&, int64_t) { return std::nan(""); });
  expect_goes_on(space, [](const auto&, int64_t) { return infinity; });
  expect_goes_on(space, [](const auto& v, int64_t trial) { return trial % 3 == 0 ? std::nan("") : trial % 3 == 1 ? infinity : sum_of(v); });
}

TEST(EdgeCases, LossesThatNoArithmeticHolds) {
  const Space space = mixed();
  expect_goes_on(space, [](const auto&, int64_t trial) { return trial % 2 == 0 ? -infinity : infinity; });
  expect_goes_on(space, [](const auto& v, int64_t) { return (v[1] - 5) * 3e307; });
  expect_goes_on(space, [](const auto& v, int64_t) { return v[0] * 1e-315; });
}

TEST(EdgeCases, SmallSpaces) {
  const Loss loss = [](const auto& v, int64_t) { return sum_of(v); };
  expect_goes_on({integer("x", 3, 3)}, loss);
  expect_goes_on({integer("x", 3, 3), categorical("c", {"only"}), ordinal("o", {2})}, loss);
  expect_goes_on({integer("x", 0, 1)}, loss);
  expect_goes_on({real("x", 0, 1, Scale::linear, 1)}, loss);
  expect_goes_on({categorical("a", {"1", "2", "3"}), categorical("b", {"1", "2"}), categorical("c", {"1"})}, loss);
}

TEST(EdgeCases, ConditionsOnConditions) {
  std::vector<Parameter> parameters{categorical("c0", {"stop", "go"})};
  for (int level = 1; level < 10; ++level) {
    parameters.push_back(categorical(concat("c", level), {"stop", "go"}).when(concat("c", level - 1), {"go"}));
  }
  parameters.push_back(real("x", 0, 1).when("c9", {"go"}));
  expect_goes_on(Space(parameters), [](const auto& v, int64_t) { return -sum_of(v); });
}

TEST(EdgeCases, NothingIsFeasible) {
  Space space{integer("x", 0, 9), categorical("c", {"a", "b"})};
  space.require("never", [](const Configuration&) { return false; });
  expect_goes_on(space, [](const auto&, int64_t) { return std::nan(""); });
}

/// 500 proposals without a result; then all results, from the last one to the first.
TEST(EdgeCases, ManyInFlight) {
  const Space space{real("x", 0, 1), integer("n", 1, 8)};
  for (const NamedPropagator& named : named_propagators()) {
    Course course(space, named, 500);
    while (course.in_flight().size() < 500) ASSERT_TRUE(course.ask()) << course.about();
    while (!course.in_flight().empty()) course.end(course.in_flight().size() - 1, sum_of(course.in_flight().back().values));
    EXPECT_TRUE(course.ask()) << course.about();
  }
}

/// Within a second each, where a quadratic algorithm would take a minute, or memory for 10^10 numbers; or refused because of its dimensions.
TEST(EdgeCases, AHundredThousandValues) {
  std::vector<std::string> choices;
  std::vector<double> numbers;
  for (int i = 0; i < 100000; ++i) {
    choices.push_back(concat("c", i));
    numbers.push_back(i);
  }
  auto last = std::chrono::steady_clock::now();
  const auto lap = [&] {
    const auto before = std::exchange(last, std::chrono::steady_clock::now());
    return std::chrono::duration<double>(last - before).count();
  };
  const Space space{categorical("choice", choices), ordinal("number", numbers),
                    real("x", 0, 1).when("choice", {choices.begin(), choices.begin() + 50000})};
  EXPECT_LT(lap(), 1);
  int refused = 0;
  for (const NamedPropagator& named : named_propagators()) {
    try {
      Course course(space, named, 100);
      for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(course.ask()) << named.name;
        course.end(0, i);
      }
    } catch (const ContractError& error) {
      EXPECT_NE(std::string(error.what()).find("dimensions at most, but the space has 100002"), std::string::npos) << error.what();
      ++refused;
    }
    EXPECT_LT(lap(), 1) << named.name;
  }
  EXPECT_EQ(refused, 5);
  EXPECT_NO_THROW(automatic(space, 0, 1, 0, 1));
}

Parameter any_parameter(const std::vector<Parameter>& before, CounterRng& random) {
  const std::string name = concat('p', before.size());
  const double low = uniform(random, -3, 3);
  const auto choices = 1 + index_below(random, 4);
  Parameter p;
  switch (index_below(random, 6)) {
    case 0: p = real(name, low, low + 1 + uniform(random)); break;
    case 1: p = real(name, std::exp(low), std::exp(low) * 1e6, log_scale); break;
    case 2: p = real(name, low, low + 1, Scale::linear, uniform(random, 0.01, 1)); break;
    case 3: p = integer(name, -2, static_cast<int64_t>(index_below(random, 1000)) - 2); break;
    case 4: p = integer(name, 1, 1 + static_cast<int64_t>(index_below(random, 100)), log_scale); break;
    default: p = categorical(name, {});
  }
  if (p.kind == Parameter::Kind::categorical) {
    for (size_t i = 0; i < choices; ++i) p.choices.push_back(concat("v", i));
  }
  if (before.empty() || bernoulli(random, 0.6)) return p;
  const Parameter& parent = before[index_below(random, before.size())];
  return parent.has_choices() ? p.when(parent.name, {parent.choices.front(), parent.choices.back()}) : p;
}

Space any_space(CounterRng& random) {
  std::vector<Parameter> parameters;
  const size_t size = 1 + index_below(random, 6);
  while (parameters.size() < size) parameters.push_back(any_parameter(parameters, random));
  Space space(parameters);
  if (bernoulli(random, 0.2)) space.require("by chance", [](const Configuration& c) { return std::fmod(std::abs(sum_of(c.values())), 2) < 1.5; });
  return space;
}

double any_loss(const std::vector<double>& values, CounterRng& random) {
  const double sum = sum_of(values);
  switch (index_below(random, 12)) {
    case 0: return std::nan("");
    case 1: return infinity;
    case 2: return 0;
    case 3: return sum * 1e200;
    case 4: return -infinity;
    default: return sum + normal(random);
  }
}

/// Random spaces and losses, any order of asking and ending, and individuals of other workers with arbitrary tags.
TEST(EdgeCases, AnySpaceAndAnyLoss) {
  constexpr uint64_t spaces = 20;
  for (uint64_t number = 0; number < spaces; ++number) {
    CounterRng random(11, number);
    const Space space = any_space(random);
    for (const NamedPropagator& named : named_propagators()) {
      Course course(space, named, 60, number % 2 == 0);
      int64_t foreign = 1000;
      for (int event = 0; event < 60; ++event) {
        const double what = uniform(random);
        if (course.in_flight().empty() || what < 0.5) {
          ASSERT_TRUE(course.ask()) << course.about() << " in space " << number;
        } else if (what < 0.9) {
          const size_t i = index_below(random, course.in_flight().size());
          course.end(i, any_loss(course.in_flight()[i].values, random));
        } else {
          std::vector<double> values;
          for (size_t i = 0; i < space.size(); ++i) values.push_back(space.from_unit(i, uniform(random)));
          space.repair(values);
          const auto number_below = [&] { return static_cast<int32_t>(index_below(random, 8)) - 3; };
          Individual other = ended({values, {number_below(), number_below(), number_below()}}, foreign++, any_loss(values, random));
          other.moves = static_cast<int32_t>(index_below(random, 2));
          course.tell(other);
        }
      }
    }
  }
}

}  // namespace edge_cases_test
}  // namespace tw::search
