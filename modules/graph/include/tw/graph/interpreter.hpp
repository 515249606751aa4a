// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tw/graph/graph.hpp>
#include <vector>

namespace tw::graph {

/// The rows of the batch that a pass computes, and for which it draws random numbers.
struct PassRows {
  int64_t rows = 0;    ///< number of rows in this pass
  uint64_t key = 0;    ///< key of the pass; equal keys draw equal numbers
  int64_t first = 0;   ///< index of the first of these rows in the whole batch
  bool probe = false;  ///< dry run: replaces each random number by the middle of its range, and checks no answers
};

/// Runs nodes of a graph, operator by operator, so that autograd records as usual. Under a WeightGradients::Recording, products of the batch with
/// weights go through WeightGradients::record(). Random numbers come from a counter-based generator keyed by pass, draw and row. They do not depend
/// on how the batch is divided, or on the kind of device.
///
/// The constructor places the constants that lie on an accelerator on the thread's current device of that kind; those on the host stay there. Random
/// numbers are drawn on the host and copied to the device. The host waits only for values that the module itself reads: the booleans that are checked
/// (Node::answer).
class Interpreter {
 public:
  /// @param nodes indices of nodes, in the order of the graph. @param inputs, outputs indices of values. @param bind returns the tensor of a
  /// parameter or buffer by its name; it is not called for those among `inputs`.
  Interpreter(const Graph& graph, const std::vector<int>& nodes, const std::vector<int>& inputs, const std::vector<int>& outputs,
              const std::function<at::Tensor(const std::string& name)>& bind);
  /// For all nodes, inputs and outputs of the graph.
  Interpreter(const Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind);
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;
  Interpreter& operator=(Interpreter&&) noexcept;

  /// @return the outputs
  /// @throws Error naming a node that fails in LibTorch or returns a wrong Node::answer; also if `pass` has rows, but fewer than Graph::min_rows
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, const PassRows& pass) const;

  /// Whether any of the nodes draws random numbers.
  bool is_random() const noexcept;
  /// Whether the backward pass of any of the nodes can run in two halves, see WeightGradients.
  bool has_products() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::graph
