// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/graph/capture.hpp>

#include "builder.hpp"

namespace tw::graph {

/// A module to be captured.
struct Subject {
  const Forward& forward;
  std::vector<NamedTensor> parameters;     // each once
  std::vector<NamedTensor> buffers;        // each once, without parameters
  bool opens = false;                      // whether composite operators are recorded by their parts
  std::vector<NamedTensor> changing = {};  // parameters that forward is known to change

  /// Parameters, then buffers.
  std::vector<NamedTensor> tensors() const;
  /// Whether all tensors have memory. Without it, a replay cannot be compared with the module.
  bool has_values(const std::vector<at::Tensor>& example) const;

  Subject(const Forward& run, std::vector<NamedTensor> all_parameters, std::vector<NamedTensor> all_buffers);
};

/// The first run, which detects parameters that forward changes. Restores state like run_of().
Run first_run_of(Subject& module, const std::vector<at::Tensor>& inputs);

/// One run. Restores buffers, changing parameters and generators. @param changed receives the buffers after the run, unless null
Run run_of(const Subject& module, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>* changed = nullptr);

/// `run`, of one row, made comparable to `full`, of several. Adds the calls of contiguous() that LibTorch omits if memory is contiguous already.
/// Where `full` has separate tensors but an operator here returned its argument, makes a new tensor object.
Run aligned(Run run, const Run& full);

Graph graph_of(const Run& run, const Subject& module);

/// The graph of `one`, with sizes that differ in `other` as functions of the rows. @throws Error naming an operator that differs in anything else
Graph of_any_rows(Graph one, int64_t rows, const Graph& other, int64_t other_rows);

/// Checks with a third number of rows that sizes are linear in the rows. Merges storages of `graph` that share memory for these rows.
/// @param rows of the capture of `graph`, for the message. @throws Error naming an operator that differs for `other_rows`
void expect_fit(Graph& graph, int64_t rows, const Graph& other, int64_t other_rows);

}  // namespace tw::graph
