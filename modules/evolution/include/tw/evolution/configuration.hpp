// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// The values of one configuration by parameter name, for objectives. Borrows the space.
class Configuration {
 public:
  /// @param values as values() returns them. @throws ContractError if their number is wrong
  Configuration(const Space& space, std::vector<double> values);
  Configuration(Space&&, std::vector<double>) = delete;

  /// The value of a real, integer or ordinal parameter. @throws ContractError if there is no such parameter, or if the other values disable it
  double real(std::string_view name) const;
  /// The same as an integer. @throws ContractError also if the value is not whole
  int64_t integer(std::string_view name) const;
  /// The value of any parameter, as text: "relu", "0.01".
  std::string text(std::string_view name) const;
  /// Whether the parameter exists, given the other values.
  bool has(std::string_view name) const;

  const Space& space() const noexcept { return *space_; }
  /// Values in the order of the space; NaN for parameters that do not exist.
  const std::vector<double>& values() const& noexcept { return values_; }
  std::vector<double> values() && noexcept { return std::move(values_); }
  /// "lr=0.01 layers=4 activation=relu"
  std::string describe() const;

 private:
  double value_of(std::string_view name) const;

  const Space* space_;
  std::vector<double> values_;
};

}  // namespace tw::search
