// SPDX-License-Identifier: Apache-2.0
// What a module computes, as a value: operators of LibTorch and the tensors between them.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tw::graph {

/// An integer that may depend on the rows of the batch: fixed + per_row * rows.
struct Size {
  int64_t fixed = 0;
  int64_t per_row = 0;

  int64_t of(int64_t rows) const noexcept { return fixed + per_row * rows; }
  bool operator==(const Size&) const = default;
};

/// A tensor that enters the graph, or that an operator outputs.
struct Value {
  enum class Kind {
    input,      ///< a batch: its first dimension are rows
    parameter,  ///< of the module, by its name there
    buffer,
    constant,  ///< see Graph::constants
    computed,
  };
  Kind kind = Kind::computed;
  std::string name;  ///< of parameters and buffers; empty otherwise
  at::ScalarType dtype = at::kFloat;
  std::vector<Size> sizes = {};
  std::vector<int64_t> order = {};  ///< of its dimensions in memory, the outermost first
  int64_t storage = 0;              ///< values with the same number share memory
  bool of_batch = false;            ///< depends on an input, or shares memory with what is changed by one

  /// The dimension of the batch's rows, which is the only one that depends on them; -1: there is none, and the value cannot be split by rows.
  int row_dimension() const noexcept;
  bool operator==(const Value&) const = default;
};

/// A value of the graph by its index; -1: none.
struct Ref {
  int value = -1;
  bool operator==(const Ref&) const = default;
};
struct Device {
  std::string name;  ///< of an accelerator its kind, such as "cuda": whoever runs the graph has its current one
  bool operator==(const Device&) const = default;
};
/// What an operator is called with; std::monostate is none. dtypes, layouts and memory formats are integers, as LibTorch has them.
using Argument = std::variant<std::monostate, bool, Size, double, std::string, Device, Ref, std::vector<bool>, std::vector<Size>, std::vector<double>,
                              std::vector<Ref>>;

/// Where the rows of a batch lie in a tensor: this dimension has outer * rows * inner elements, in that order.
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
  std::vector<int> outputs = {};      ///< values; those of a list one after the other
  std::vector<int> changes = {};      ///< values that it writes to; the result is an output of its own
  bool with_gradient = true;          ///< false: it ran where autograd was switched off
  bool of_batch = false;              ///< an input or output of it depends on an input of the graph
  std::optional<bool> answer = {};    ///< the required result; with another one the module might take another branch
  std::optional<RowPlace> rows = {};  ///< of an operator that draws random numbers, in what it draws; none: the same numbers for all rows

  /// All values among the arguments, in their order.
  std::vector<int> inputs() const;
  bool operator==(const Node&) const = default;
};

/// Nodes are in an order in which they can run.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<int> inputs;
  std::vector<int> outputs;
  std::vector<std::pair<int, at::Tensor>> constants;  ///< the value's index, and its tensor
  int64_t min_rows = 1;                               ///< in a pass: with fewer the module calls other operators, or throws

  /// By value: the node that computes it, or -1.
  std::vector<int> producers() const;
  /// Of everything but the values of constants, 64 bits: whether two graphs are of the same module.
  std::string hash() const;
};

/// For people: what goes in, a line each, such as "parameter fc1.bias  # float32 [128]", and a line a node, such as
/// "%7 = aten::addmm(fc1.bias, %0, %6, 1, 1)  # float32 [n, 128]", where n are the rows of the batch; last, the outputs.
/// @throws Error naming the operator that uses or outputs a value which is not in the graph
std::string to_text(const Graph& graph);

/// Everything, constants too. @return JSON
std::string to_json(const Graph& graph);
/// @throws Error naming what is missing or wrong
Graph graph_from_json(const std::string& json);

}  // namespace tw::graph
