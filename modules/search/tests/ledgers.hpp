// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <tw/base/random.hpp>
#include <tw/evolution/space.hpp>
#include <tw/search/journal.hpp>
#include <tw/search/ledger.hpp>
#include <vector>

/// Searches that reports are made of: one from a journal, with something of everything, and long ones.
namespace tw::search::testing {

namespace fs = std::filesystem;
constexpr double none = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
inline const std::string nasty = "<b>&\"x";
inline const std::string message = "line one,\n\"two\" <script>alert('1')</script>";

inline Space small_space() {
  return {real(nasty, 1e-4, 1, log_scale), integer("layers", 1, 4), categorical("kind", {"a,b", "sgd"}), ordinal("batch", {16, 32.5}),
          real("momentum", 0, 1).when("kind", {"sgd"})};
}

inline fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / ("search_test_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

inline Individual of(int64_t trial, std::vector<double> values, int worker, int island) {
  return {.trial = trial, .values = std::move(values), .worker = worker, .island = island};
}

inline Individual ended(Individual individual, TrialState state, double loss, double seconds) {
  individual.state = state;
  individual.loss = loss;
  individual.seconds = seconds;
  return individual;
}

/// Three workers on two islands: trials that are complete, pruned, failed, infeasible, and not ended at the second attempt.
inline fs::path write_journal(const std::string& name) {
  const fs::path folder = fresh_folder(name);
  JournalHeader header{.space = small_space().hash(), .seed = 1, .worker = 0, .islands = {2, 1}};
  const Individual first = of(0, {0.1, 2, 0, 1, none}, 0, 0);
  {
    JournalWriter journal(folder, header, 0);
    journal.start(first, false);
    journal.report(0, 1, 0.75);
    journal.report(0, 2, none);
    journal.end(ended(first, TrialState::complete, 0.1, 1.5), "");
    const Individual third = of(3, {0.2, 3, 1, 0, 0.9}, 0, 0);
    journal.start(third, false);
    journal.end(ended(third, TrialState::failed, infinity, 0.25), message);
    journal.write();
  }
  header.worker = 1;
  {
    JournalWriter journal(folder, header, 0);
    const Individual pruned = of(1, {1e-4, 1, 1, 0, 1.0 / 3}, 1, 0);
    journal.start(pruned, false);
    journal.end(ended(pruned, TrialState::pruned, 0.5, 0.125), "");
    const Individual lost = of(4, {0.5, 4, 0, 0, none}, 1, 0);
    journal.start(lost, false);
    journal.report(4, 1, 3);
    journal.start(lost, true);
    journal.report(4, 1, 4);
    journal.write();
  }
  header.worker = 2;
  {
    JournalWriter journal(folder, header, 0);
    const Individual infeasible = of(2, {0.3, 1, 0, 0, none}, 2, 1);
    journal.start(infeasible, false);
    journal.end(ended(infeasible, TrialState::infeasible, infinity, 0), "violates 'small'");
    journal.adopt(ended(first, TrialState::complete, 0.1, 1.5), 0);
    journal.write();
  }
  return folder;
}

/// `n` trials on four workers, one after the other; each takes a second.
inline Ledger long_ledger(int64_t n, const std::function<double(const std::vector<double>&)>& loss, size_t parameters) {
  Ledger ledger{.epochs = 1, .workers = 4, .islands = 1, .next_trial = n};
  CounterRng random(5, 0);
  for (int64_t trial = 0; trial < n; ++trial) {
    std::vector<double> values;
    for (size_t i = 0; i < parameters; ++i) values.push_back(static_cast<double>(random.below(1 << 20)) / (1 << 20));
    const double found = loss(values);
    const double begin = 1e9 + static_cast<double>(trial / 4);
    ledger.trials.push_back({.individual = ended(of(trial, std::move(values), static_cast<int>(trial % 4), 0), TrialState::complete, found, 1),
                             .attempts = 1,
                             .worker = static_cast<int>(trial % 4),
                             .begin = begin,
                             .end = begin + 1,
                             .last_activity = begin + 1});
  }
  return ledger;
}

inline const Space unit_cube{real("a", 0, 1), real("b", 0, 1), real("c", 0, 1)};

}  // namespace tw::search::testing
