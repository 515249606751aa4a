// SPDX-License-Identifier: Apache-2.0
#include <tw/search/check_objective.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/exact_text.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/stopping.hpp>
#include <tw/mpi/revoke_on_exception.hpp>

#include "evaluator.hpp"
#include "space_lines.hpp"

namespace tw {

template <>
struct Fields<search::ObjectiveCheck> {
  using C = search::ObjectiveCheck;
  static constexpr auto all = std::tuple(&C::problems, &C::seconds, &C::slowest_seconds);
};

}  // namespace tw

namespace tw::search {
namespace {

struct Attempt {
  Evaluation evaluation = {};
  std::vector<Report> reports = {};
};

Attempt attempt(Evaluator& evaluator, int64_t trial, const std::vector<double>& values) {
  Attempt made;
  const auto reporting = [&](int64_t step, double value) {
    made.reports.push_back({trial, step, value});
    return Verdict::go_on;
  };
  made.evaluation = evaluator.evaluate(trial, values, /*step=*/0, {.report = reporting});
  return made;
}

bool are_same(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

/// All objectives, then the violation.
std::vector<double> numbers_of(const Evaluation& evaluation) {
  std::vector<double> numbers = evaluation.objectives.empty() ? std::vector{evaluation.loss} : evaluation.objectives;
  numbers.push_back(evaluation.violation);
  return numbers;
}

/// The difference between two attempts, or another problem of them; empty if there is none.
std::string problem_of(const Attempt& first, const Attempt& second) {
  for (const Attempt* each : {&first, &second}) {
    if (each->evaluation.state == TrialState::failed) return "failed: " + each->evaluation.message;
    for (const Report& report : each->reports) {
      if (!std::isfinite(report.value)) return concat("reports ", report.value, " at step ", report.step);
    }
  }
  const std::vector<double> found = numbers_of(first.evaluation);
  const std::vector<double> repeated = numbers_of(second.evaluation);
  if (found.size() != repeated.size()) return concat("returns ", found.size() - 1, " values, but ", repeated.size() - 1, " when it is repeated");
  for (size_t i = 0; i < found.size(); ++i) {
    if (are_same(found[i], repeated[i])) continue;
    const std::string what = i + 1 == found.size() ? "its violation" : found.size() == 2 ? "its loss" : concat("its value ", i + 1);
    return concat(what, " is ", exact_text(found[i]), ", but ", exact_text(repeated[i]), " when it is repeated");
  }
  if (first.reports.size() != second.reports.size())
    return concat("reports ", first.reports.size(), " times, but ", second.reports.size(), " times when it is repeated");
  for (size_t i = 0; i < first.reports.size(); ++i) {
    const Report& a = first.reports[i];
    const Report& b = second.reports[i];
    if (a.step != b.step || !are_same(a.value, b.value))
      return concat("reports ", exact_text(a.value), " at step ", a.step, ", but ", exact_text(b.value), " at step ", b.step, " when it is repeated");
  }
  return "";
}

ObjectiveCheck checked(Evaluator& evaluator, const Space& space, const ObjectiveCheckOptions& options) {
  ObjectiveCheck check;
  Breeder breeder(space, uniform_child());
  std::vector<std::vector<double>> configurations;
  for (int trial = 0; trial < options.configurations; ++trial) {
    CounterRng random(options.seed, static_cast<uint64_t>(trial));
    configurations.push_back(breeder.ask(Population(), random).values);
    const std::string violated = space.violated(configurations.back());
    if (violated.empty()) continue;
    check.problems.push_back("random configurations violate the constraint '" + violated + "'");
    return check;
  }
  std::vector<Attempt> first;
  std::vector<Attempt> second(configurations.size());
  for (const auto& values : configurations) first.push_back(attempt(evaluator, static_cast<int64_t>(first.size()), values));
  for (size_t i = second.size(); i-- > 0;)
    second[i] = attempt(evaluator, static_cast<int64_t>(i), configurations[i]);  // in reverse order, so that other trials come in between
  for (size_t i = 0; i < first.size(); ++i) {
    const std::string problem = problem_of(first[i], second[i]);
    if (!problem.empty()) check.problems.push_back(concat("trial ", i, ", ", Configuration(space, configurations[i]).describe(), ": ", problem));
    for (const double seconds : {first[i].evaluation.seconds, second[i].evaluation.seconds}) {
      check.seconds += seconds / static_cast<double>(2 * first.size());
      check.slowest_seconds = std::max(check.slowest_seconds, seconds);
    }
  }
  return check;
}

}  // namespace

void ObjectiveCheckOptions::validate() const { TW_EXPECTS(configurations >= 1, "configurations must be at least 1, got ", configurations); }

ObjectiveCheck check_objective(const Communicator& comm, const Space& space, const Objective& objective, const ObjectiveCheckOptions& options) {
  std::vector<std::string> lines = lines_of(space);
  lines.push_back(concat("configurations ", options.configurations));
  lines.push_back(concat("seed ", options.seed));
  lines.emplace_back(objective ? "an objective" : "no objective");
  expect_same_on_all_ranks(comm, "the space and options of check_objective()", lines);
  options.validate();
  TW_EXPECTS(objective != nullptr, "check_objective() needs an objective, but the function is empty");
  const Communicator worker = comm.dup();
  return revoke_on_exception(worker, [&] {
    Evaluator evaluator(worker, space, objective, options.seed);
    ObjectiveCheck check;
    if (evaluator.leads()) {
      check = checked(evaluator, space, options);
      evaluator.dismiss();
    } else {
      evaluator.serve();
    }
    return broadcast_object(worker, check, Rank(0));
  });
}

}  // namespace tw::search
