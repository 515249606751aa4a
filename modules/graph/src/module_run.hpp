// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/graph/capture.hpp>

#include "builder.hpp"

namespace tw::graph {

/// A module as capture() takes it.
struct Subject {
  const Forward& forward;
  std::vector<NamedTensor> parameters;     // each once
  std::vector<NamedTensor> buffers;        // each once, and no parameter
  bool opens = false;                      // operators that are made of others are recorded as these
  std::vector<NamedTensor> changing = {};  // parameters that forward changes by itself, as far as known

  /// Parameters and then buffers.
  std::vector<NamedTensor> tensors() const;

  Subject(const Forward& run, std::vector<NamedTensor> all_parameters, std::vector<NamedTensor> all_buffers);
};

/// The first run, which finds out which parameters forward changes. They are afterwards what they were, as after run_of().
Run first_run_of(Subject& module, const std::vector<at::Tensor>& inputs);

/// One run. Buffers, parameters that change and generators are afterwards what they were. @param changed where given, what the run leaves in the
/// buffers
Run run_of(const Subject& module, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>* changed = nullptr);

/// `run`, of one row, with the calls of contiguous() that `full` makes, of several: LibTorch leaves them out where memory is contiguous as it is. And
/// with a tensor of its own for each that `full` has, where an operator gave what it took.
Run aligned(Run run, const Run& full);

Graph graph_of(const Run& run, const Subject& module);

/// The graph of `one`, with what differs in `other` as a function of the rows. @throws Error naming the operator that differs in anything else
Graph of_any_rows(Graph one, int64_t rows, const Graph& other, int64_t other_rows);

/// Proves with a third number of rows that sizes are linear in them, and has values of `graph` share memory that do for these rows.
/// @param rows that `graph` was captured with, for the message. @throws Error naming the operator that does something else for `other_rows`
void expect_fit(Graph& graph, int64_t rows, const Graph& other, int64_t other_rows);

}  // namespace tw::graph
