// SPDX-License-Identifier: Apache-2.0
#include "sliced_module.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/graph/cuts.hpp>
#include <tw/mpi/library.hpp>

namespace tw::pipeline {
namespace {

using graph::Graph;

/// The hash of a graph without sizes, which may differ between slices of one module.
std::string operators_hash(Graph graph) {
  graph.constants.clear();
  graph.min_rows = 1;
  for (graph::Value& value : graph.values) value = {.kind = value.kind, .name = value.name, .dtype = value.dtype, .of_batch = value.of_batch};
  for (graph::Node& node : graph.nodes) {
    node.rows.reset();
    node.stream = 0;
    for (graph::Argument& argument : node.arguments) {
      if (std::holds_alternative<graph::Size>(argument)) argument = graph::Size();
      if (auto* sizes = std::get_if<std::vector<graph::Size>>(&argument)) std::ranges::fill(*sizes, graph::Size());
    }
  }
  return graph.hash();
}

std::string units_text(const Graph& graph) {
  return joined(units_of(graph), " ", [](const std::vector<int>& unit) { return concat('[', joined(unit), ']'); });
}

std::vector<std::string> hashes_of(const graph::ModeGraphs& captured) {
  return {"training mode: operators with hash " + captured.training.hash(), "evaluation mode: operators with hash " + captured.evaluation.hash()};
}

}  // namespace

SlicesOfStage::SlicesOfStage(const SlicedModule& of) : holders_(mpi::share(of.holders())), all_(of.sliced_parameters()) {}

void SlicesOfStage::note(const std::string& name) {
  const auto found = std::ranges::find(all_, name, &SlicedParameter::name);
  if (found != all_.end()) here_.push_back(*found);
}

std::shared_ptr<torch::nn::Module> stage_module_at(const std::string& path, const torch::nn::Module& whole) {
  const torch::nn::Module* at = &whole;
  const auto parts = whole.named_modules("", /*include_self=*/false);
  if (!path.empty()) at = parts.contains(path) ? parts[path].get() : nullptr;
  if (const auto* sliced = dynamic_cast<const SlicedModule*>(at)) return std::make_shared<SlicesOfStage>(*sliced);
  return std::make_shared<torch::nn::Module>();
}

void expect_same_operators(const Communicator& comm, const Communicator* slices, graph::ModeGraphs& captured) {
  if (slices == nullptr) return expect_same_on_all_ranks(comm, "the module to plan", hashes_of(captured));
  std::vector<std::string> lines;
  for (const Graph* graph : {&captured.training, &captured.evaluation}) {
    lines.push_back(concat(graph == &captured.training ? "training" : "evaluation", " mode: operators with hash ", operators_hash(*graph),
                           " in units ", units_text(*graph)));
  }
  expect_same_on_all_ranks(comm, "the operators of the module to plan", lines);
  const Communicator alike = comm.split(slices->rank(), comm.rank());
  on_all_ranks(comm, "comparing the module to plan", [&] { expect_same_on_all_ranks(alike, "the module to plan", hashes_of(captured)); });
  const at::Tensor min_rows = at::tensor({captured.training.min_rows, captured.evaluation.min_rows}, at::kLong);
  allreduce(comm, min_rows, ReduceOp::max);
  captured.training.min_rows = min_rows[0].item<int64_t>();
  captured.evaluation.min_rows = min_rows[1].item<int64_t>();
}

}  // namespace tw::pipeline
