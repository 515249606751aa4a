// SPDX-License-Identifier: Apache-2.0
// Searches for people and other programs to read: from a ledger to CSV, SQLite and a page of HTML.
#pragma once
#include <filesystem>
#include <string>
#include <tw/evolution/space.hpp>
#include <tw/search/ledger.hpp>

namespace tw::search {

/// A row for each trial: trial, state, loss, seconds, worker, island, epoch, attempts, begin, end, reports (their number), migrations (likewise),
/// message, violation (of constraints with values), ranks (the most that it ran on at a time), and with several objectives front (1: no other trial
/// dominates it) and a column objective.NAME for each of them, the first of which is the loss; constraint.1 and so on, the values of constraints,
/// above 0 where violated; and a column parameter.NAME for each parameter. Empty: what does not exist. Numbers read back as the same ones; times are
/// in seconds since the Unix epoch. Ref: RFC 4180.
std::string to_csv(const Ledger& ledger, const Space& space);

/// Writes to_csv(). Like the others that write, it replaces `path` as a whole, or throws and leaves it as it was. @throws FileError
void export_csv(const Ledger& ledger, const Space& space, const std::filesystem::path& path);

/// Writes a database of nine tables, NULL being what does not exist:
/// - parameters(parameter, name, kind, low, high, scale, step, choices, parent, allowed): choices and allowed values as JSON
/// - trials(trial, state, loss, seconds, worker, island, epoch, attempts, began, ended, message, violation, ranks, front): ranks the most at a time;
///   front 1 where no other trial dominates it, NULL with one objective
/// - objectives(objective, name) and objective_values(trial, objective, value): of several objectives; the first one is the loss, too. Then
///   there is a view trials_with_objectives: trials, with a column objective.NAME for each
/// - constraint_values(trial, number, value): of constraints that an evaluation gave values of, from number 1. Where there are any, there is a view
///   trials_with_constraints: trials, with a column constraint.NUMBER for each
/// - trial_values(trial, parameter, number, text): of choices, both the number (or NULL) and the text
/// - reports(trial, number, step, value)
/// - copies(trial, number, original, step, configuration, time): of a population; the configuration as text, from then on
/// - migrations(trial, from_island, to_island, worker, time)
/// @throws FileError
void export_sqlite(const Ledger& ledger, const Space& space, const std::filesystem::path& path);

/// One page, which needs no server and loads nothing: best so far, the ten best trials, the front of several objectives, learning curves, parallel
/// coordinates, slices, importance of parameters and a map of the two that matter most, a timeline of workers, islands and migrations, counts by
/// state, the first failures, and a list of trials that a script sorts and filters. Where there are too many trials to draw, it names those it shows.
/// With several objectives, what it shows of losses is about the first one.
std::string html_report(const Ledger& ledger, const Space& space);

/// Writes report.html, trials.csv and trials.sqlite next to the journal in `folder`. By one process; the search may still be running.
/// @throws FileError for what cannot be read or written; Error where there is no journal
void write_reports(const std::filesystem::path& folder, const Space& space);

}  // namespace tw::search
