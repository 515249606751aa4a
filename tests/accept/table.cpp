// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

namespace tw::testing {
namespace {

using search::Parameter;

constexpr int missing = -1;

std::vector<Parameter> parameters_of(const auto& columns) {
  std::vector<Parameter> parameters;
  for (const auto& column : columns) parameters.push_back(column.parameter);
  return parameters;
}

auto columns_of(std::istream& text, auto&& parse) {
  std::vector<decltype(parse(std::string()))> columns;
  for (std::string line; std::getline(text, line) && !line.empty();) columns.push_back(parse(line));
  return columns;
}

}  // namespace

Table::Column Table::column_of(const std::string& line) {
  std::istringstream words(line);
  std::string name;
  std::string kind;
  words >> name >> kind;
  std::vector<std::string> levels;
  std::vector<std::string> condition;
  bool conditional = false;
  for (std::string word; words >> word;) {
    if (word == "when") {
      conditional = true;
    } else {
      (conditional ? condition : levels).push_back(word);
    }
  }
  if (levels.empty() || conditional != (condition.size() >= 2)) throw Error(concat("not a parameter of a table: '", line, "'"));
  Column column;
  for (const std::string& level : levels) column.levels.push_back(kind == "categorical" ? 0 : std::stod(level));
  if (kind == "log") {
    column.parameter = search::real(name, column.levels.front(), column.levels.back(), search::log_scale);
  } else if (kind == "integer") {
    column.parameter = search::integer(name, static_cast<int64_t>(column.levels.front()), static_cast<int64_t>(column.levels.back()));
  } else if (kind == "ordinal" || kind == "categorical") {
    column.parameter = kind == "ordinal" ? search::ordinal(name, column.levels) : search::categorical(name, levels);
    for (size_t i = 0; i < levels.size(); ++i) column.levels[i] = static_cast<double>(i);
  } else {
    throw Error(concat("a table knows no kind '", kind, "'"));
  }
  if (conditional) column.parameter = column.parameter.when(condition.front(), {condition.begin() + 1, condition.end()});
  return column;
}

Table::Table(std::istream& text)
    : columns_(columns_of(text, column_of)), space_(parameters_of(columns_)), minimum_(std::numeric_limits<double>::infinity()) {
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::vector<int> levels;
    std::string word;
    while (levels.size() < columns_.size() && words >> word) levels.push_back(word == "-" ? missing : std::stoi(word));
    if (!(words >> word)) throw Error(concat("not a configuration of a table: '", line, "'"));
    const double loss = std::stod(word);
    losses_[levels] = loss;
    if (loss < minimum_) minimum_ = loss;
  }
}

Table Table::read(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw Error(concat("cannot read ", path.string()));
  return Table(file);
}

void Table::for_each(const std::function<void(const std::vector<double>&, const std::vector<int>&)>& what) const {
  std::vector<double> values(columns_.size());
  std::vector<int> levels(columns_.size());
  const std::function<void(size_t)> from = [&](size_t i) {
    if (i == columns_.size()) return what(values, levels);
    if (!space_.exists(i, values)) {
      values[i] = std::numeric_limits<double>::quiet_NaN();
      levels[i] = missing;
      return from(i + 1);
    }
    for (size_t level = 0; level < columns_[i].levels.size(); ++level) {
      values[i] = columns_[i].levels[level];
      levels[i] = static_cast<int>(level);
      from(i + 1);
    }
  };
  from(0);
}

double Table::loss(const std::vector<double>& values) const {
  std::vector<int> levels(columns_.size(), missing);
  return between(values, 0, levels);
}

double Table::between(const std::vector<double>& values, size_t column, std::vector<int>& levels) const {
  if (column == columns_.size()) return losses_.at(levels);
  if (std::isnan(values[column])) {
    levels[column] = missing;
    return between(values, column + 1, levels);
  }
  const std::vector<double>& known = columns_[column].levels;
  const auto above = std::min(std::lower_bound(known.begin(), known.end(), values[column]), known.end() - 1);
  const auto upper = static_cast<int>(above - known.begin());
  levels[column] = upper;
  const double there = between(values, column + 1, levels);
  if (upper == 0 || *above == values[column]) return there;
  levels[column] = upper - 1;
  const double share = std::log(values[column] / known[static_cast<size_t>(upper) - 1]) / std::log(*above / known[static_cast<size_t>(upper) - 1]);
  return (1 - share) * between(values, column + 1, levels) + share * there;
}

}  // namespace tw::testing
