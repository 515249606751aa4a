// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// Access to the values of one configuration by parameter name, for objective functions. Borrows the space.
class Configuration {
 public:
  /// @param values as values() returns them. @throws ContractError if their number is wrong
  Configuration(const Space& space, std::vector<double> values);
  Configuration(Space&&, std::vector<double>) = delete;

  /// The value of a real, integer or ordinal parameter. @throws ContractError if there is no such parameter, if it is categorical, or if the other
  /// values disable it
  double real(std::string_view name) const;
  /// real() as an integer. @throws ContractError as real() does, and if the value is not a 64-bit integer
  int64_t integer(std::string_view name) const;
  /// The value of any parameter, as text: "relu", "0.01".
  std::string text(std::string_view name) const;
  /// Whether the parameter exists, given the other values.
  bool has(std::string_view name) const;

  const Space& space() const noexcept { return *space_; }
  /// Values in the order of the space; NaN for parameters that do not exist.
  const std::vector<double>& values() const& noexcept { return values_; }
  std::vector<double> values() && noexcept { return std::move(values_); }
  /// All existing values as text: "lr=0.01 layers=4 activation=relu".
  std::string describe() const;

 private:
  double value_of(std::string_view name) const;

  const Space* space_;
  std::vector<double> values_;
};

}  // namespace tw::search
