// SPDX-License-Identifier: Apache-2.0
// A module's computation as a value: LibTorch's operators and the tensors between them.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tw::graph {

/// An integer that may depend on the number of rows of the batch: fixed + per_row * rows.
struct Size {
  int64_t fixed = 0;
  int64_t per_row = 0;

  int64_t of(int64_t rows) const noexcept { return fixed + per_row * rows; }
  bool operator==(const Size&) const = default;
};

/// A tensor in the graph.
struct Value {
  enum class Kind {
    input,      ///< an input of the graph, a batch: its first dimension is the rows
    parameter,  ///< a parameter of the module, under its name in the module
    buffer,
    constant,  ///< see Graph::constants
    computed,  ///< an output of an operator
  };
  Kind kind = Kind::computed;
  std::string name;  ///< name of a parameter or buffer; empty otherwise
  at::ScalarType dtype = at::kFloat;
  std::vector<Size> sizes = {};
  std::vector<int64_t> order = {};  ///< order of its dimensions in memory, outermost first
  int64_t storage = 0;              ///< values with the same number share memory
  /// Whether it depends on an input, or is computed and an operator writes data that depends on an input to its memory. False for parameters and
  /// buffers, even if the batch changes them.
  bool of_batch = false;

  /// The dimension of the batch's rows: its size is their number, and no other size depends on it. -1 if there is none; the value cannot be split
  /// then.
  int row_dimension() const noexcept;
  bool operator==(const Value&) const = default;
};

/// A value of the graph by its index; -1: none.
struct Ref {
  int value = -1;
  bool operator==(const Ref&) const = default;
};
struct Device {
  std::string name;  ///< for an accelerator its kind, such as "cuda": the graph runs on the current device of that kind
  bool operator==(const Device&) const = default;
};
/// An object that an operator uses, such as the ranks with which it communicates: an instance of a class that is registered by torch::class_, and has
/// a method name() that returns a string. Graphs compare objects by their names, and JSON contains only the names.
struct Object {
  std::string name;
  c10::IValue value = {};  ///< none after graph_from_json()
  bool operator==(const Object& other) const { return name == other.name; }
};
/// An argument of an operator; std::monostate is None. dtypes, layouts and memory formats are integers, as in LibTorch.
using Argument = std::variant<std::monostate, bool, Size, double, std::string, Device, Ref, Object, std::vector<bool>, std::vector<Size>,
                              std::vector<double>, std::vector<Ref>>;

/// The position of the batch's rows in a tensor: dimension `dimension` has outer * rows * inner elements, in that order, outermost first.
struct RowPlace {
  int dimension = 0;
  int64_t outer = 1;
  int64_t inner = 1;
  bool operator==(const RowPlace&) const = default;
};

/// One call of an operator.
struct Node {
  std::string op;        ///< such as "aten::addmm"
  std::string overload;  ///< such as "out", often empty
  std::vector<Argument> arguments = {};
  std::vector<int> outputs = {};      ///< output values; for a list, those of its tensors one after the other
  std::vector<int> changes = {};      ///< values that it changes in place; its result is nevertheless a separate value in `outputs`
  bool with_gradient = true;          ///< false: it ran with autograd off
  bool of_batch = false;              ///< one of its inputs or outputs depends on an input of the graph
  std::optional<bool> answer = {};    ///< the boolean result that a replay must return; with the other one, the module might take another branch
  std::optional<RowPlace> rows = {};  ///< position of the rows in the random numbers that it draws; none: the same numbers for all rows
  uint64_t stream = 0;                ///< of the random numbers that it draws, see RandomStream

  /// All values among the arguments, in their order.
  std::vector<int> inputs() const;
  bool operator==(const Node&) const = default;
};

/// A captured computation. Nodes are in an order in which they can run.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<int> inputs;
  std::vector<int> outputs;
  std::vector<std::pair<int, at::Tensor>> constants;  ///< index of the value, and its tensor
  int64_t min_rows = 1;                               ///< minimum rows of a pass; with fewer the module calls other operators, or throws

  /// For each value, the node that computes it, or -1.
  std::vector<int> producers() const;
  /// 64-bit hash, as hexadecimal text, of everything but the constants' values, to check whether two graphs are of the same module.
  std::string hash() const;
};

/// Replaces the objects among the arguments of operators, so that replays use others: those of another communicator, or any at all in a graph that
/// was read from JSON. @param replacement returns the new value of an object
void replace_objects(Graph& graph, const std::function<c10::IValue(const Object&)>& replacement);

/// Human-readable text. One line per input, parameter, buffer and constant, such as "parameter fc1.bias  # float32 [128]". One line per node, such as
/// "%7 = aten::addmm(fc1.bias, %0, %6, 1, 1)  # float32 [n, 128]", where n is the number of rows. The last line lists the outputs.
/// @throws Error naming an operator that uses or outputs a value outside the graph
std::string to_text(const Graph& graph);

/// The whole graph as JSON, including the constants' values, but only the names of objects.
std::string to_json(const Graph& graph);
/// The inverse of to_json(), but objects have no values: call replace_objects() before you replay the graph. @throws Error naming what is missing or
/// wrong
Graph graph_from_json(const std::string& json);

}  // namespace tw::graph
