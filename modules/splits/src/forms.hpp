// SPDX-License-Identifier: Apache-2.0
// Forms of values, and how ranks convert them into each other. Pure.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <tw/graph/graph.hpp>
#include <tw/splits/operator_splits.hpp>
#include <vector>

namespace tw::splits {

/// How ranks have a value and what they compute of its cotangent.
struct Form {
  Placement placement = {};
  bool has_partial_cotangent = false;  ///< whole, but the operators that use this form compute summands of its cotangent

  auto operator<=>(const Form&) const = default;
};

/// A step from one form of a value to another.
struct Conversion {
  enum class Kind {
    copy,     ///< whole -> whole with a partial cotangent; backward: all-reduce
    reduce,   ///< partial -> whole by an all-reduce; backward: nothing
    gather,   ///< split -> whole by an all-gather; backward: the rank's part
    scatter,  ///< whole -> split; backward: all-gather
    keep,     ///< whole -> partial: the first rank keeps the value, the others take zeros; backward: nothing
  };
  Kind kind = Kind::copy;
  Form from = {};
  Form to = {};

  bool operator==(const Conversion&) const = default;
};

/// The forms of all values of a graph while its nodes are processed in order.
class Forms {
 public:
  /// @param stored how ranks hold parameters, by name, where that is decided already
  Forms(const graph::Graph& graph, int ranks, const std::map<std::string, Placement>& stored);

  /// Makes `wanted` available. A parameter that nothing has used yet is stored as it is wanted, if it can be. @return the conversions, in order
  std::vector<Conversion> obtain(int value, const Form& wanted);
  /// Sets the form in which a node returns a value.
  void define(int value, const Placement& placement);
  /// Forgets a value that nothing uses any more.
  void forget(int value) { forms_.erase(value); }
  /// The first form of a value: of a parameter, as it is stored. Null: unknown yet.
  const Form* first(int value) const;
  /// The form of input `i` of a node that is computed by `split`; null: whole.
  Form wanted(int value, const OperatorSplit* split, size_t i) const;

  /// Whether two states allow the same from here on.
  bool operator==(const Forms& other) const { return forms_ == other.forms_; }
  bool operator<(const Forms& other) const { return forms_ < other.forms_; }

 private:
  Form stored_form(int value, const Form& wanted) const;

  const graph::Graph* graph_;
  int ranks_;
  const std::map<std::string, Placement>* stored_;
  std::shared_ptr<const std::vector<bool>> has_cotangent_;  // by value
  std::map<int, std::vector<Form>> forms_;                  // by value, the first one first
};

/// By value, whether it may have a cotangent: it depends on a parameter, in any way.
std::vector<bool> values_with_cotangent(const graph::Graph& graph);

}  // namespace tw::splits
