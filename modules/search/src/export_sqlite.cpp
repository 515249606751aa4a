// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/file.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/search/report.hpp>

#include "exported.hpp"
#include "sqlite.hpp"

namespace tw::search {
namespace {

// The file is new, nobody else has opened it, and it is deleted if anything fails, so SQLite needs no journal and no synchronization.
constexpr const char* schema = R"(
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
BEGIN;
CREATE TABLE parameters(parameter INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, low REAL, high REAL, scale TEXT, step REAL,
                        choices TEXT, parent TEXT, allowed TEXT);
CREATE TABLE trials(trial INTEGER PRIMARY KEY, state TEXT NOT NULL, loss REAL, seconds REAL, worker INTEGER NOT NULL, island INTEGER NOT NULL,
                    epoch INTEGER NOT NULL, attempts INTEGER NOT NULL, began REAL NOT NULL, ended REAL, message TEXT, violation REAL, ranks INTEGER NOT NULL,
                    front INTEGER);
CREATE TABLE trial_values(trial INTEGER NOT NULL REFERENCES trials, parameter INTEGER NOT NULL REFERENCES parameters, number REAL, text TEXT NOT NULL,
                          PRIMARY KEY(trial, parameter)) WITHOUT ROWID;
CREATE TABLE objectives(objective INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE objective_values(trial INTEGER NOT NULL REFERENCES trials, objective INTEGER NOT NULL REFERENCES objectives, value REAL,
                              PRIMARY KEY(trial, objective)) WITHOUT ROWID;
CREATE TABLE constraint_values(trial INTEGER NOT NULL REFERENCES trials, number INTEGER NOT NULL, value REAL,
                               PRIMARY KEY(trial, number)) WITHOUT ROWID;
CREATE TABLE reports(trial INTEGER NOT NULL REFERENCES trials, number INTEGER NOT NULL, step INTEGER NOT NULL, value REAL,
                     PRIMARY KEY(trial, number)) WITHOUT ROWID;
CREATE TABLE copies(trial INTEGER NOT NULL REFERENCES trials, number INTEGER NOT NULL, original INTEGER NOT NULL, step INTEGER NOT NULL,
                    configuration TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY(trial, number)) WITHOUT ROWID;
CREATE TABLE migrations(trial INTEGER NOT NULL, from_island INTEGER NOT NULL, to_island INTEGER NOT NULL, worker INTEGER NOT NULL, time REAL NOT NULL);
)";

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

const char* kind_text(Parameter::Kind kind) {
  switch (kind) {
    case Parameter::Kind::real: return "real";
    case Parameter::Kind::integer: return "integer";
    case Parameter::Kind::ordinal: return "ordinal";
    case Parameter::Kind::categorical: break;
  }
  return "categorical";
}

const char* text_or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

std::string json_of(const std::vector<std::string>& texts) {
  return texts.empty() ? "" : nlohmann::json(texts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void insert_parameters(Database& database, const Space& space) {
  Insertion insert(database, "INSERT INTO parameters VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (size_t i = 0; i < space.size(); ++i) {
    const Parameter& each = space.parameters()[i];
    const bool limited = !each.has_choices();
    const char* scale = each.scale == Scale::linear ? "linear" : "logarithmic";
    insert(i, each.name, kind_text(each.kind), limited ? each.low : nothing, limited ? each.high : nothing, limited ? scale : nullptr,
           each.step > 0 ? each.step : nothing, text_or_null(json_of(each.choices)), text_or_null(each.parent), text_or_null(json_of(each.allowed)));
  }
}

double number_of(const Parameter& parameter, double value) {
  switch (parameter.kind) {
    case Parameter::Kind::ordinal: return parameter.numbers.at(static_cast<size_t>(value));
    case Parameter::Kind::categorical: return nothing;
    default: return value;
  }
}

void insert_trials(Database& database, const Ledger& ledger, const Space& space) {
  Insertion trial(database, "INSERT INTO trials VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Insertion value(database, "INSERT INTO trial_values VALUES(?, ?, ?, ?)");
  const std::set<int64_t> front = trials_on_front(ledger);
  Insertion report(database, "INSERT INTO reports VALUES(?, ?, ?, ?)");
  for (const LedgerEntry& entry : ledger.trials) {
    const Individual& individual = entry.individual;
    trial(individual.trial, name_of(individual.state), individual.loss, entry.has_ended() ? individual.seconds : nothing, entry.worker,
          individual.island, entry.epoch, entry.attempts, entry.begin, entry.end, text_or_null(entry.message),
          entry.has_ended() ? individual.violation : nothing, ranks_of(ledger, entry),
          ledger.objectives.size() < 2 ? nothing : static_cast<double>(front.contains(individual.trial)));
    for (size_t i = 0; i < space.size(); ++i) {
      const Parameter& parameter = space.parameters()[i];
      const double own = individual.values[i];
      if (!std::isnan(own)) value(individual.trial, i, number_of(parameter, own), parameter.text_of(own));
    }
    for (size_t i = 0; i < entry.reports.size(); ++i) report(individual.trial, i, entry.reports[i].step, entry.reports[i].value);
  }
}

void insert_objectives(Database& database, const Ledger& ledger) {
  Insertion objective(database, "INSERT INTO objectives VALUES(?, ?)");
  Insertion value(database, "INSERT INTO objective_values VALUES(?, ?, ?)");
  for (size_t i = 0; i < ledger.objectives.size(); ++i) objective(i, ledger.objectives[i]);
  for (const LedgerEntry& entry : ledger.trials) {
    const std::vector<double>& values = entry.individual.objectives;
    for (size_t i = 0; i < values.size(); ++i) value(entry.individual.trial, i, values[i]);
  }
}

void insert_constraints(Database& database, const Ledger& ledger) {
  Insertion value(database, "INSERT INTO constraint_values VALUES(?, ?, ?)");
  for (const LedgerEntry& entry : ledger.trials) {
    for (size_t i = 0; i < entry.constraints.size(); ++i) value(entry.individual.trial, i + 1, entry.constraints[i]);
  }
}

std::string quoted_name(const std::string& name) {
  std::string text = "\"";
  for (const char each : name) text += each == '"' ? std::string("\"\"") : std::string(1, each);
  return text + '"';
}

/// The SQL of a column of a view of trials. @param values name of a table with a value for each trial and `key`
std::string column(const std::string& values, const std::string& key, size_t at, const std::string& name) {
  return concat(", (SELECT value FROM ", values, " v WHERE v.trial = trials.trial AND ", key, " = ", at, ") AS ", quoted_name(name));
}

/// Creates two views with a row per trial: one has a column for each of several objectives, the other for each constraint.
void create_views(Database& database, const Ledger& ledger) {
  std::string objectives;
  for (size_t i = 0; i < ledger.objectives.size(); ++i) objectives += column("objective_values", "objective", i, "objective." + ledger.objectives[i]);
  std::string constraints;
  for (size_t i = 1; i <= constraints_of(ledger); ++i) constraints += column("constraint_values", "number", i, concat("constraint.", i));
  const auto create = [&](const char* name, const std::string& columns) {
    database.execute(concat("CREATE VIEW ", name, " AS SELECT trials.*", columns, " FROM trials;").c_str());
  };
  if (ledger.objectives.size() > 1) create("trials_with_objectives", objectives);
  if (!constraints.empty()) create("trials_with_constraints", constraints);
}

void insert_copies(Database& database, const Ledger& ledger, const Space& space) {
  Insertion insert(database, "INSERT INTO copies VALUES(?, ?, ?, ?, ?, ?)");
  for (const LedgerEntry& entry : ledger.trials) {
    for (size_t i = 0; i < entry.copies.size(); ++i) {
      const Copy& copy = entry.copies[i];
      insert(entry.individual.trial, i, copy.original, copy.step, Configuration(space, copy.values).describe(), copy.time);
    }
  }
}

void insert_migrations(Database& database, const Ledger& ledger) {
  Insertion insert(database, "INSERT INTO migrations VALUES(?, ?, ?, ?, ?)");
  for (const Migration& each : ledger.migrations) insert(each.trial, each.from, each.to, each.worker, each.time);
}

}  // namespace

void export_sqlite(const Ledger& ledger, const Space& space, const std::filesystem::path& path) {
  replace_file(path, [&](const std::filesystem::path& partial) {
    Database database(partial);
    database.execute(schema);
    insert_parameters(database, space);
    insert_trials(database, ledger, space);
    insert_objectives(database, ledger);
    insert_constraints(database, ledger);
    create_views(database, ledger);
    insert_copies(database, ledger, space);
    insert_migrations(database, ledger);
    database.execute("COMMIT");
  });
}

}  // namespace tw::search
