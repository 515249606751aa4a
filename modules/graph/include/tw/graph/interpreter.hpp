// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tw/graph/graph.hpp>
#include <vector>

namespace tw::graph {

/// Which rows of which pass are computed: what random numbers depend on.
struct PassRows {
  int64_t rows = 0;    ///< of the batch
  uint64_t key = 0;    ///< of the pass; equal keys draw equal numbers
  int64_t first = 0;   ///< of these rows in the whole batch
  bool probe = false;  ///< only to see where numbers go: the middle of its range in place of each random one, and no guard is asked
};

/// Runs nodes of a graph, operator by operator, so that autograd records as usual. Random numbers are drawn from a counter: by the pass, the node
/// and the row, whatever the division of the batch and the kind of device.
///
/// What the graph has on an accelerator, such as constants, is on this thread's current one when the interpreter is made. Numbers are drawn on the
/// host and copied there. The host waits for nothing but for what the module reads itself: answers that are checked.
class Interpreter {
 public:
  /// @param nodes in the order of the graph. @param inputs, outputs values. @param bind returns the tensor of a parameter or buffer that is no input,
  /// by its name.
  Interpreter(const Graph& graph, const std::vector<int>& nodes, const std::vector<int>& inputs, const std::vector<int>& outputs,
              const std::function<at::Tensor(const std::string& name)>& bind);
  /// The whole graph.
  Interpreter(const Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind);
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;
  Interpreter& operator=(Interpreter&&) noexcept;

  /// @return the outputs
  /// @throws Error naming the node that LibTorch refused
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, const PassRows& pass) const;

  /// Whether any operator of it draws random numbers.
  bool is_random() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::graph
