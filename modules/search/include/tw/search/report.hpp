// SPDX-License-Identifier: Apache-2.0
// Exports a ledger for people and other programs: CSV, SQLite and an HTML page.
#pragma once
#include <filesystem>
#include <string>
#include <tw/evolution/space.hpp>
#include <tw/search/ledger.hpp>

namespace tw::search {

/// One row per trial. Columns: trial, state, loss, seconds, worker, island, epoch, attempts, begin, end, reports (their number), migrations (their
/// number), message, violation (of constraints with values), ranks (of its worker). With several objectives also front (1: no other
/// trial dominates it) and objective.NAME for each; the first one is the loss. Then constraint.1 and so on, the values of constraints, positive if
/// violated, and parameter.NAME for each parameter. A missing value is empty. Numbers read back exactly; times are in seconds since the Unix epoch.
/// Ref: RFC 4180.
std::string to_csv(const Ledger& ledger, const Space& space);

/// Writes to_csv(). Like the other writing functions, it replaces `path` atomically, or throws and leaves it unchanged. @throws FileError
void export_csv(const Ledger& ledger, const Space& space, const std::filesystem::path& path);

/// Writes a database of nine tables; NULL stands for a missing value:
/// - parameters(parameter, name, kind, low, high, scale, step, choices, parent, allowed): choices and allowed values as JSON
/// - trials(trial, state, loss, seconds, worker, island, epoch, attempts, began, ended, message, violation, ranks, front): ranks are those of its
///   worker; front is 1 if no other trial dominates it, NULL with one objective
/// - objectives(objective, name) and objective_values(trial, objective, value): only for several objectives; the first one is also the loss. A view
///   trials_with_objectives then adds a column objective.NAME for each
/// - constraint_values(trial, number, value): constraint values that evaluations returned, from number 1. If there are any, a view
///   trials_with_constraints adds a column constraint.NUMBER for each
/// - trial_values(trial, parameter, number, text): choices have both the number (or NULL) and the text
/// - reports(trial, number, step, value)
/// - copies(trial, number, original, step, configuration, time): only for population-based training; configuration is the new one, as text
/// - migrations(trial, from_island, to_island, worker, time)
/// @throws FileError
void export_sqlite(const Ledger& ledger, const Space& space, const std::filesystem::path& path);

/// One self-contained page. It shows the best loss over time, the ten best trials, the front of several objectives, learning curves, parallel
/// coordinates and slices. It also shows the importance of parameters with a map of the two most important ones, and a timeline of workers, islands
/// and migrations. Lists follow: counts by state, the first failures, and all trials, which a script sorts and filters. If there are too many trials
/// to draw, the page shows some of them and states which. With several objectives, losses are those of the first one.
std::string html_report(const Ledger& ledger, const Space& space);

/// Writes report.html, trials.csv and trials.sqlite next to the journal in `folder`. Call it on one process; the search may still be running.
/// @throws FileError for a file that cannot be read or written; Error if there is no journal
void write_reports(const std::filesystem::path& folder, const Space& space);

}  // namespace tw::search
