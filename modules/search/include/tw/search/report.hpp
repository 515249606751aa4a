// SPDX-License-Identifier: Apache-2.0
// Exports a ledger for people and other programs: CSV, SQLite and an HTML page.
#pragma once
#include <filesystem>
#include <string>
#include <tw/evolution/space.hpp>
#include <tw/search/ledger.hpp>

namespace tw::search {

/// One row per trial. Columns: trial, state, loss, seconds, worker, island, epoch, attempts, begin, end, reports (their number), migrations (their
/// number), message, violation (sum of the positive constraint values), ranks (the number of ranks of the worker). With several objectives, also
/// front (1 if the trial is on the Pareto front of the complete and pruned trials, otherwise 0; of trials with equal objectives, only the first one
/// is on it) and objective.NAME for each objective; the first objective is the loss. Then constraint.1 and so on, the values of constraints, positive
/// if violated, and parameter.NAME for each parameter. A missing value is empty. Numbers read back exactly; begin and end are in seconds since the
/// Unix epoch. Ref: RFC 4180.
std::string to_csv(const Ledger& ledger, const Space& space);

/// Writes to_csv() to `path`. Like the other functions here that write files, it replaces a file atomically, or throws and leaves the file unchanged.
/// @throws FileError
void export_csv(const Ledger& ledger, const Space& space, const std::filesystem::path& path);

/// Writes an SQLite database of nine tables; NULL stands for a missing value:
/// - parameters(parameter, name, kind, low, high, scale, step, choices, parent, allowed): choices and allowed values as JSON
/// - trials(trial, state, loss, seconds, worker, island, epoch, attempts, began, ended, message, violation, ranks, front): `ranks` is the number of
///   ranks of the worker. `front` is as in to_csv(), but NULL with one objective
/// - objectives(objective, name) and objective_values(trial, objective, value): values only if there are several objectives; the first one is also
///   the loss. In this case, a view trials_with_objectives adds a column objective.NAME to `trials` for each objective
/// - constraint_values(trial, number, value): constraint values that evaluations returned, numbered from 1. If there are any, a view
///   trials_with_constraints adds a column constraint.NUMBER to `trials` for each constraint
/// - trial_values(trial, parameter, number, text): `text` always has a value; `number` is NULL for categorical parameters
/// - reports(trial, number, step, value)
/// - copies(trial, number, original, step, configuration, time): only for population-based training; configuration is the trial's new one, as text
/// - migrations(trial, from_island, to_island, worker, time)
/// @throws FileError
void export_sqlite(const Ledger& ledger, const Space& space, const std::filesystem::path& path);

/// One self-contained HTML page. It shows the best loss over time, the ten best trials, the Pareto front of several objectives, learning curves,
/// parallel coordinates and slices. It also shows the importance of parameters with a map of the two most important ones, and a timeline of workers,
/// islands and migrations. Further tables list the counts by state, the parameters of the space, the first failures, and all trials; the last one can
/// be sorted and filtered. If there are too many trials to draw, the page shows some of them and states which. With several objectives, the loss is
/// the first of them.
std::string html_report(const Ledger& ledger, const Space& space);

/// Writes report.html, trials.csv and trials.sqlite next to the journal in `folder`. Call it on one process; the search may still be running.
/// @throws FileError for a file that cannot be read or written; Error if there is no journal
void write_reports(const std::filesystem::path& folder, const Space& space);

}  // namespace tw::search
