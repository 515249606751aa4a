// SPDX-License-Identifier: Apache-2.0
// What is searched: parameters with their limits, conditions and constraints.
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

/// One dimension. Its value is held as a double: a real or integer as it is, of the others the index of the choice.
struct Parameter {
  enum class Kind { real, integer, ordinal, categorical };

  std::string name = {};
  Kind kind = Kind::real;
  double low = 0;                         ///< of real and integer ones, inclusive
  double high = 0;                        ///< inclusive
  Scale scale = Scale::linear;            ///< of real and integer ones
  double step = 0;                        ///< of real ones: values are low + k step; 0: any value
  std::vector<std::string> choices = {};  ///< of ordinal and categorical ones
  std::vector<double> numbers = {};       ///< of ordinal ones, which are numbers
  std::string parent = {};                ///< it exists only under a value of this one; empty: always
  std::vector<std::string> allowed = {};  ///< the parent's values, as text, under which it exists
  std::string initial = {};               ///< where a search begins, as text; empty: not set

  /// This parameter, existing only while `name`, which is declared earlier and always has a value when this one has, is one of `values`.
  Parameter when(std::string name, std::vector<std::string> values) const;
  /// This parameter, with the value that a search tries first, as text. See Space::starts().
  Parameter starting_at(std::string value) const;
  bool has_choices() const noexcept { return kind == Kind::ordinal || kind == Kind::categorical; }
  /// Number of values; 0: a continuum.
  int64_t count() const noexcept;
  /// Such as "0.01", "4", "relu".
  std::string text_of(double value) const;
  /// The inverse of text_of(); NaN: it is none of its values.
  double value_of(const std::string& text) const;
};

Parameter real(std::string name, double low, double high, Scale scale = Scale::linear, double step = 0);
Parameter integer(std::string name, int64_t low, int64_t high, Scale scale = Scale::linear);
/// Numbers in an order, such as batch sizes.
Parameter ordinal(std::string name, std::vector<double> numbers);
Parameter categorical(std::string name, std::vector<std::string> choices);

/// Whether two configurations are the same; NaN, for what does not exist, equals NaN.
bool same_values(const std::vector<double>& a, const std::vector<double>& b);

class Configuration;

/// Parameters, and what configurations must fulfil. A value; cheap to share by reference.
class Space {
 public:
  /// @throws ContractError naming the parameter: no name, a duplicate one, reversed or infinite limits, an empty range, a scale or step that does not
  /// fit, a condition on what is not declared before or on values that it does not have
  Space(std::initializer_list<Parameter> parameters);
  explicit Space(std::vector<Parameter> parameters);

  const std::vector<Parameter>& parameters() const noexcept { return parameters_; }
  size_t size() const noexcept { return parameters_.size(); }
  /// @throws ContractError naming the nearest one if there is none of this name
  size_t index_of(std::string_view name) const;

  /// Only configurations for which `holds` is true are feasible. @param name for messages
  void require(std::string name, std::function<bool(const Configuration&)> holds);
  /// The names of all constraints, in the order in which they were given.
  std::vector<std::string> constraints() const;
  /// The first constraint that `values` violate; empty: feasible.
  std::string violated(const std::vector<double>& values) const;

  /// Whether parameter `index` exists under the values of those before it.
  bool exists(size_t index, const std::vector<double>& values) const;
  /// The nearest values that there are: within limits (by clipping), on steps, whole where they must be; NaN for what does not exist. What exists and
  /// is NaN becomes the first choice, or the middle of its scale. @throws ContractError for another number of values
  void repair(std::vector<double>& values) const;
  /// A search tries this configuration, too, before any other: values as text, by name, as in starting_at(), which holds for those that are not
  /// named. Call it again for further ones. @throws ContractError naming an unknown parameter, a value that it does not have, or one that
  /// does not exist under the others' values
  void start_at(const std::map<std::string, std::string>& values);
  /// The points that a search tries first: the `initial` values of parameters, with the first choice or the middle of the others, and then the points
  /// of start_at(), in that order.
  const std::vector<std::vector<double>>& starts() const noexcept { return starts_; }
  /// Whether repair() would change nothing.
  bool contains(const std::vector<double>& values) const;

  /// Positions are vectors of numbers between 0 and 1: one for a real, integer or ordinal parameter, in its scale, and one for each choice of a
  /// categorical one.
  size_t dimensions() const noexcept { return dimensions_; }
  /// A parameter with finitely many values is at the middle of its share. One that does not exist is at 0.5; if categorical, so is each choice.
  /// @throws ContractError for another number of values
  std::vector<double> encode(const std::vector<double>& values) const;
  /// The inverse of encode(); for a categorical one the largest number counts. Positions outside are clipped. @throws ContractError for another size
  std::vector<double> decode(const std::vector<double>& position) const;
  /// Of parameter `index` alone: between 0 and 1, in its scale; choices, categorical ones too, have equal shares in their order.
  double to_unit(size_t index, double value) const;
  double from_unit(size_t index, double unit) const;

  /// Equal for equal parameters: what a journal belongs to.
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
