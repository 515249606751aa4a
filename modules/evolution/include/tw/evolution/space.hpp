// SPDX-License-Identifier: Apache-2.0
// The search space: parameters with their limits, conditions and constraints.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tw::search {

enum class Scale { linear, logarithmic };
inline constexpr Scale log_scale = Scale::logarithmic;

/// One parameter. Its value is held as a double: the number itself for real and integer parameters, otherwise the index of the choice.
struct Parameter {
  enum class Kind { real, integer, ordinal, categorical };

  std::string name = {};
  Kind kind = Kind::real;
  double low = 0;                         ///< lower limit of real and integer parameters, inclusive
  double high = 0;                        ///< upper limit, inclusive
  Scale scale = Scale::linear;            ///< scale of real and integer parameters
  double step = 0;                        ///< real parameters: values are low + k * step; 0: any value
  std::vector<std::string> choices = {};  ///< choices of an ordinal or categorical parameter, as text
  std::vector<double> numbers = {};       ///< numbers of an ordinal parameter's choices
  std::string parent = {};                ///< name of the parameter that decides whether this one exists; empty: this one always exists
  std::vector<std::string> allowed = {};  ///< values of the parent, as text, for which this one exists
  std::string initial = {};               ///< the value that a search tries first, as text; empty: not set

  /// Returns this parameter with a condition: it exists only if the parameter `name` exists and has one of `values`. Declare that parameter earlier.
  Parameter when(std::string name, std::vector<std::string> values) const;
  /// Returns this parameter with the value that a search tries first, as text. See Space::starts().
  Parameter starting_at(std::string value) const;
  bool has_choices() const noexcept { return kind == Kind::ordinal || kind == Kind::categorical; }
  /// Number of values; 0: continuous.
  int64_t count() const noexcept;
  /// The value as text, such as "0.01", "4", "relu"; "-" for NaN.
  std::string text_of(double value) const;
  /// The inverse of text_of(); NaN if `text` is not a value of this parameter.
  double value_of(const std::string& text) const;
};

Parameter real(std::string name, double low, double high, Scale scale = Scale::linear, double step = 0);
Parameter integer(std::string name, int64_t low, int64_t high, Scale scale = Scale::linear);
/// A choice of numbers with an order, such as batch sizes.
Parameter ordinal(std::string name, std::vector<double> numbers);
Parameter categorical(std::string name, std::vector<std::string> choices);

/// Whether two configurations are equal; NaN, which stands for parameters that do not exist, equals NaN.
bool same_values(const std::vector<double>& a, const std::vector<double>& b);

class Configuration;

/// The parameters and constraints of a search. A value type; share it by reference.
class Space {
 public:
  /// @throws ContractError naming the parameter, for a missing or duplicate name, reversed or infinite limits, an empty range, an unsuitable scale or
  /// step, a condition on an undeclared parameter or on values that the other parameter does not have, or an initial value that the parameter does
  /// not have
  Space(std::initializer_list<Parameter> parameters);
  explicit Space(std::vector<Parameter> parameters);

  const std::vector<Parameter>& parameters() const& noexcept { return parameters_; }
  std::vector<Parameter> parameters() && noexcept { return std::move(parameters_); }
  size_t size() const noexcept { return parameters_.size(); }
  /// @throws ContractError if the name is unknown; the message suggests the nearest name
  size_t index_of(std::string_view name) const;

  /// Adds a constraint: only configurations for which `holds` returns true are feasible. @param name for messages
  void require(std::string name, std::function<bool(const Configuration&)> holds);
  /// The names of all constraints, in the order in which they were added.
  std::vector<std::string> constraints() const;
  /// The name of the first constraint that `values` violate; empty if feasible.
  std::string violated(const std::vector<double>& values) const;

  /// Whether parameter `index` exists, given the values of earlier parameters.
  bool exists(size_t index, const std::vector<double>& values) const;
  /// Changes `values` to the nearest valid ones: clipped to limits, on steps, whole where required, NaN for parameters that do not exist. A parameter
  /// that exists but is NaN gets the first choice, or the middle of its scale. @throws ContractError if the number of values is wrong
  void repair(std::vector<double>& values) const;
  /// Adds a configuration that a search tries before its own proposals: values as text by parameter name. Parameters that are not named get their
  /// starting_at() value, or else the first choice or the middle of their scale. Call it again for more configurations. @throws ContractError naming
  /// the parameter if it is unknown, does not have the value, or does not exist given the other values
  void start_at(const std::map<std::string, std::string>& values);
  /// The configurations that a search tries first. If any parameter has an `initial` value, the first configuration has these values, and the first
  /// choice or the middle of the scale for other parameters. The configurations of start_at() follow in order.
  const std::vector<std::vector<double>>& starts() const& noexcept { return starts_; }
  std::vector<std::vector<double>> starts() && noexcept { return std::move(starts_); }
  /// Whether `values` are valid, that is, whether repair() would change nothing.
  bool contains(const std::vector<double>& values) const;

  /// Size of a position. A position is a vector of numbers between 0 and 1: one for each real, integer or ordinal parameter, in its scale, and one
  /// for each choice of a categorical parameter.
  size_t dimensions() const noexcept { return dimensions_; }
  /// The position of a configuration. If a parameter has finitely many values on a linear scale, they have equal shares of 0..1, and each value lies
  /// at the middle of its share. All entries of a parameter that does not exist are 0.5. @throws ContractError if the number of values is wrong
  std::vector<double> encode(const std::vector<double>& values) const;
  /// The inverse of encode(). A categorical parameter's largest entry determines its choice. Positions outside the unit cube are clipped.
  /// @throws ContractError if the size is wrong
  std::vector<double> decode(const std::vector<double>& position) const;
  /// Maps a value of parameter `index` to 0..1, in the parameter's scale. Choices, including categorical ones, have equal shares in their order.
  double to_unit(size_t index, double value) const;
  double from_unit(size_t index, double unit) const;

  /// A hash of the parameters, without constraints and initial values. A search's journal (its record on disk) is matched to its space by this hash.
  uint64_t hash() const;

 private:
  std::vector<double> initial() const;

  struct Constraint {
    std::string name;
    std::function<bool(const Configuration&)> holds;
  };
  struct Condition {
    int parent = -1;
    std::vector<double> allowed;
  };

  std::vector<Parameter> parameters_;
  std::vector<Condition> conditions_;  // by parameter
  std::vector<Constraint> constraints_;
  std::vector<std::vector<double>> starts_;
  size_t dimensions_ = 0;
};

}  // namespace tw::search
