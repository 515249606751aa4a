// SPDX-License-Identifier: Apache-2.0
#include <tw/graph/capture.hpp>

#include <ATen/ops/cat.h>

#include <algorithm>
#include <iterator>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/log.hpp>
#include <tw/base/numbers.hpp>
#include <tw/tensor/memory_order.hpp>

#include "module_run.hpp"
#include "other_numbers.hpp"
#include "row_places.hpp"
#include "verify_replay.hpp"

namespace tw::graph {
namespace {

std::vector<at::Tensor> repeated(const std::vector<at::Tensor>& example, size_t times) {
  std::vector<at::Tensor> made;
  for (const at::Tensor& each : example) made.push_back(in_order(at::cat(std::vector<at::Tensor>(times, each)), memory_order(each)));
  return made;
}

std::vector<at::Tensor> first_row(const std::vector<at::Tensor>& example) {
  std::vector<at::Tensor> made;
  for (const at::Tensor& each : example) made.push_back(each.narrow(0, 0, 1));
  return made;
}

int64_t rows_of(const std::vector<at::Tensor>& batch) { return batch[0].size(0); }

std::vector<size_t> with_both(const Call& one, const Call& other) {
  std::vector<size_t> both;
  std::ranges::set_union(one.writes, other.writes, std::back_inserter(both));
  return both;
}

/// A run with the rows of an example, and the graph for any number of rows.
struct Captured {
  Run run;
  Graph graph;
};

/// @param run the first one or a later one
Captured captured(const Subject& module, Run run, const std::vector<at::Tensor>& example) {
  const std::vector<at::Tensor> twice = repeated(example, 2);
  Run other = run_of(module, twice);
  if (rows_of(example) == 1) run = aligned(std::move(run), other);
  if (other.calls.size() == run.calls.size()) {  // a write seen in one run may have gone unnoticed in the other
    for (size_t i = 0; i < run.calls.size(); ++i) run.calls[i].writes = other.calls[i].writes = with_both(run.calls[i], other.calls[i]);
  }
  Graph graph = of_any_rows(graph_of(run, module), rows_of(example), graph_of(other, module), rows_of(twice));
  return {std::move(run), std::move(graph)};
}

Captured captured(Subject& module, const std::vector<at::Tensor>& example) {
  Run first = first_run_of(module, example);
  try {
    return captured(module, first, example);
  } catch (const Error&) {
    Run again = run_of(module, example);
    const bool is_same = std::ranges::equal(first.calls, again.calls, {}, &Call::name, &Call::name);
    if (is_same) throw;
    const size_t calls = again.calls.size();
    try {  // a cache in a member is filled by now
      return captured(module, std::move(again), example);
    } catch (const UnknownTensor&) {
      throw;
    } catch (const Error& error) {
      throw Error(concat("the module calls ", first.calls.size(), " operators in its first run and ", calls,
                         " in the next one, for example because it caches a tensor in a member: ", error.what()));
    }
  }
}

/// Validates the graph with another number of rows: with one row, if the module makes the same calls then; otherwise with more rows than `example`.
void prove_rows(Captured& captured, const Subject& module, const std::vector<at::Tensor>& example) {
  Graph& graph = captured.graph;
  const int64_t rows = rows_of(example);
  if (rows > 1) {
    try {
      const std::vector<at::Tensor> row = first_row(example);
      Graph proved = graph;
      expect_fit(proved, rows, graph_of(aligned(run_of(module, row), captured.run), module), 1);
      if (module.has_values(example)) expect_same_numbers(proved, module, row);
      graph = std::move(proved);
      return;
    } catch (const std::exception&) {
      graph.min_rows = 2;
    }
  }
  const std::vector<at::Tensor> more = repeated(example, rows == 1 ? 5 : 3);  // three rows may not expose a dependence such as rows / 2
  expect_fit(graph, rows, graph_of(run_of(module, more), module), rows_of(more));
}

Graph graph_of_module(Subject& module, const std::vector<at::Tensor>& example) {
  Captured made = captured(module, example);
  Graph& graph = made.graph;
  prove_rows(made, module, example);
  for (const int output : graph.outputs) {
    if (!graph.values[at(output)].of_batch) throw Error("an output of the module does not depend on its inputs");
  }
  const bool has_values = module.has_values(example);
  place_rows(graph, example, module.parameters, module.buffers, has_values);
  if (!has_values) {
    expect_supported_gradients(made.run);
    log_info("a module is captured without memory, so its graph is not compared with the module");
    return std::move(graph);
  }
  const std::vector<at::Tensor> turned = rotated(example);
  verify_replay(graph, made.run, module, turned);
  const OtherNumbers others(module.tensors());
  expect_follows_tensors(graph, module, turned);
  return std::move(graph);
}

}  // namespace

Graph capture(const Forward& forward, const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
              const std::vector<at::Tensor>& example) {
  TW_EXPECTS(!example.empty(), "an example must have at least one tensor");
  for (const at::Tensor& each : example) {
    TW_EXPECTS(each.dim() > 0 && each.size(0) > 0 && each.size(0) == rows_of(example),
               "the tensors of an example must have the same number of rows, at least 1");
  }
  Subject module(forward, parameters, buffers);
  try {
    return graph_of_module(module, example);
  } catch (const UnknownTensor& unknown) {
    module.opens = true;
    try {
      return graph_of_module(module, example);
    } catch (const UnknownTensor&) {  // any other error means that the tensors are known now
      throw Error(unknown.what());
    }
  }
}

Graph capture_call(const Forward& function, const std::vector<NamedTensor>& parameters, const std::vector<at::Tensor>& inputs) {
  const Subject module(function, parameters, {});
  return graph_of(run_of(module, inputs), module);
}

}  // namespace tw::graph
