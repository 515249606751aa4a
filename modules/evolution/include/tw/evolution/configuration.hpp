// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// Values of a space by name, for objectives. Borrows the space.
class Configuration {
 public:
  /// @param values as values() returns them. @throws ContractError for another number of them
  Configuration(const Space& space, std::vector<double> values);

  /// A real, integer or ordinal parameter. @throws ContractError where there is none, or it does not exist under the others' values
  double real(std::string_view name) const;
  /// @throws ContractError also where the value is not whole
  int64_t integer(std::string_view name) const;
  /// Any parameter, as text: "relu", "0.01".
  std::string text(std::string_view name) const;
  /// Whether the parameter exists under the others' values.
  bool has(std::string_view name) const;

  const Space& space() const noexcept { return *space_; }
  /// In the order of the space; NaN for what does not exist.
  const std::vector<double>& values() const noexcept { return values_; }
  /// "lr=0.01 layers=4 activation=relu"
  std::string describe() const;

 private:
  double value_of(std::string_view name) const;

  const Space* space_;
  std::vector<double> values_;
};

}  // namespace tw::search
