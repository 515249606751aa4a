// SPDX-License-Identifier: Apache-2.0
// Results of training every configuration of a finite space, used as the objective of a search.
#pragma once
#include <filesystem>
#include <functional>
#include <istream>
#include <map>
#include <string>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::testing {

/// A text file: a line for each parameter, an empty line, and a line for each configuration. The latter has the level of each parameter, '-' where it
/// does not exist, and the loss, which is nan if training failed. Levels count from 0. A parameter is "NAME KIND LEVEL ... [when PARENT VALUE ...]",
/// with KIND
///   log       a real parameter on a logarithmic scale, from the first level to the last; losses between levels are interpolated in its logarithm
///   ordinal, integer, categorical.
class Table {
 public:
  /// @throws Error for a line that it cannot parse
  explicit Table(std::istream& text);
  static Table read(const std::filesystem::path& path);

  const search::Space& space() const noexcept { return space_; }
  /// Calls `what` with the values and the levels of each configuration, in the order of the file.
  void for_each(const std::function<void(const std::vector<double>& values, const std::vector<int>& levels)>& what) const;

  size_t size() const noexcept { return losses_.size(); }
  /// NaN if any of the trainings used for interpolation failed.
  double loss(const std::vector<double>& values) const;
  /// The minimum over the whole space; interpolation does not go below the levels.
  double minimum() const noexcept { return minimum_; }

 private:
  struct Column {
    search::Parameter parameter;
    std::vector<double> levels;  // as values of the space
  };

  static Column column_of(const std::string& line);
  double between(const std::vector<double>& values, size_t column, std::vector<int>& levels) const;

  std::vector<Column> columns_;
  search::Space space_;
  std::map<std::vector<int>, double> losses_;
  double minimum_;
};

}  // namespace tw::testing
