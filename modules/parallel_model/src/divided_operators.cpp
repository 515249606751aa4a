// SPDX-License-Identifier: Apache-2.0
#include "divided_operators.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/gradients/model_parts.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <tw/gradients/sparse_gradients.hpp>
#include <tw/graph/place_in_module.hpp>
#include <tw/mpi/library.hpp>
#include <tw/splits/placement.hpp>
#include <tw/splits/split_graphs.hpp>
#include <tw/tensor/memory_order.hpp>
#include <tw/tensor_parallel/captured_ranks.hpp>

#include "same_numbers.hpp"

namespace tw {
namespace {

using Tensors = std::vector<at::Tensor>;

/// A part of a module whose operators are divided: it has slices, and no code.
class SlicesOfOperators : public torch::nn::Module, public SlicedModule {
 public:
  explicit SlicesOfOperators(const Communicator& holders) : holders_(mpi::share(holders)) {}
  void note(SlicedParameter slice) { slices_.push_back(std::move(slice)); }
  const Communicator& holders() const noexcept override { return holders_; }
  const std::vector<SlicedParameter>& sliced_parameters() const noexcept override { return slices_; }

 private:
  Communicator holders_;
  std::vector<SlicedParameter> slices_;
};

SlicedParameter description(const std::string& name, const at::Tensor& whole, int dimension, const Communicator& holders) {
  SlicedParameter slice{name, whole.sizes().vec(), std::vector<int64_t>(static_cast<size_t>(whole.dim()), 0)};
  slice.offsets[static_cast<size_t>(dimension)] = holders.rank() * (whole.size(dimension) / holders.size());
  return slice;
}

at::Tensor slice_of(const at::Tensor& whole, int dimension, const Communicator& holders) {
  const at::Tensor part = splits::part_of(whole.detach(), splits::Placement::split(dimension), holders.rank(), holders.size());
  const at::Tensor slice = empty_in_order(part.sizes(), part.options(), memory_order(whole)).copy_(part);
  slice.set_requires_grad(whole.requires_grad());
  guard_gradient(slice, "clip_grad_norm() of a ParallelModel");
  return slice;
}

/// @param slices the dimension that is divided, by the first name of a parameter
std::shared_ptr<torch::nn::Module> module_of_slices(const torch::nn::Module& whole, const std::map<std::string, int>& slices,
                                                    const Communicator& holders) {
  const auto make = [&](const std::string& /*path*/) { return std::make_shared<SlicesOfOperators>(holders); };
  const std::shared_ptr<SlicesOfOperators> made = make("");
  std::map<const c10::TensorImpl*, std::pair<std::string, at::Tensor>> known;  // by whole parameter: its first name, and what this rank has
  for (const auto& each : whole.named_parameters()) {
    const at::Tensor& parameter = each.value();
    auto& [first, mine] = known.try_emplace(parameter.unsafeGetTensorImpl(), each.key(), at::Tensor()).first->second;
    const auto found = slices.find(first);
    if (!mine.defined()) mine = found == slices.end() ? parameter : slice_of(parameter, found->second, holders);
    const auto [owner, name] = graph::place_in_module(*made, each.key(), make);
    owner.register_parameter(name, mine, mine.requires_grad());
    if (found != slices.end()) dynamic_cast<SlicesOfOperators&>(owner).note(description(name, parameter, found->second, holders));
  }
  for (const auto& each : whole.named_buffers()) {
    const auto [owner, name] = graph::place_in_module(*made, each.key(), make);
    owner.register_buffer(name, each.value());
  }
  made->train(whole.is_training());
  return made;
}

/// @throws ContractError if a module communicates along `tensor` by itself
void expect_no_communication(const graph::Graph& graph, const std::string& ranks) {
  for (const graph::Node& node : graph.nodes) {
    bool communicates = node.op.starts_with("torchweave::");
    for (const graph::Argument& argument : node.arguments) {
      const auto* object = std::get_if<graph::Object>(&argument);
      communicates = communicates || (object != nullptr && object->name == ranks);
    }
    TW_EXPECTS(!communicates, "the module calls ", node.op, ", but no module in it has split parameters: derive the one that calls it from ",
               "tensor_parallel::SplitModule");
  }
}

/// Gives objects of the user and constants, from the graph that this rank has captured: JSON does not hold objects, and constants may be large. Their
/// order is the same. Gives the operators between parts their ranks.
void complete(graph::Graph& parts, const graph::Graph& whole, const std::string& name, const c10::IValue& ranks) {
  std::vector<c10::IValue> objects;
  for (const graph::Node& node : whole.nodes) {
    for (const graph::Argument& argument : node.arguments) {
      if (const auto* object = std::get_if<graph::Object>(&argument)) objects.push_back(object->value);
    }
  }
  size_t next = 0;
  graph::replace_objects(parts, [&](const graph::Object& object) { return object.name == name ? ranks : objects.at(next++); });
  const auto is_given = [](const graph::Value& value) { return value.kind != graph::Value::Kind::computed; };
  for (const auto& [value, tensor] : whole.constants) {  // in a graph of parts, what is not computed comes first, in the same order
    parts.constants.emplace_back(std::count_if(whole.values.begin(), whole.values.begin() + value, is_given), tensor);
  }
}

/// A graph of rank 0, without the values of constants. Collective.
graph::Graph broadcast(const Communicator& comm, graph::Graph graph) {
  graph.constants.clear();
  return graph::graph_from_json(broadcast_string(comm, graph::to_json(graph), Rank(0)));
}

struct DividedParameter {
  std::string name = {};
  int dimension = 0;
  static constexpr auto fields = std::tuple(&DividedParameter::name, &DividedParameter::dimension);
};

/// What rank 0 has found, on all ranks. Collective.
splits::SplitGraphs broadcast(const Communicator& comm, const splits::SplitGraphs& found) {
  splits::SplitGraphs made;
  made.graphs.training = broadcast(comm, found.graphs.training);
  made.graphs.evaluation = broadcast(comm, found.graphs.evaluation);
  made.explanation = broadcast_string(comm, found.explanation, Rank(0));
  std::vector<DividedParameter> divided;
  for (const auto& [name, dimension] : found.slices) divided.push_back({name, dimension});
  for (const auto& [name, dimension] : broadcast_object(comm, divided, Rank(0))) made.slices[name] = dimension;
  return made;
}

std::map<std::string, at::Tensor> tensors_of(const torch::nn::Module& module) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& all : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& each : all) tensors[each.key()] = each.value();
  }
  return tensors;
}

/// Names of parameters whose memory is also that of a buffer.
std::vector<std::string> parameters_in_buffers(const torch::nn::Module& module) {
  std::set<const c10::StorageImpl*> buffers;
  for (const at::Tensor& each : module.buffers()) buffers.insert(each.storage().unsafeGetStorageImpl());
  std::vector<std::string> names;
  for (const auto& each : module.named_parameters()) {
    if (buffers.contains(each.value().storage().unsafeGetStorageImpl())) names.push_back(each.key());
  }
  return names;
}

}  // namespace

DividedOperators divide_operators(const Mesh& mesh, torch::nn::Module& module, const graph::Forward& forward, const Tensors& example,
                                  const ParallelOptions& options) {
  const Communicator& holders = mesh["tensor"];
  const std::string name = splits::ranks_name(holders.size());
  const std::map<std::string, at::Tensor> tensors = tensors_of(module);
  const graph::ModeGraphs whole = on_all_ranks(mesh.comm(), "capturing the module", [&] {
    const std::vector<std::string> sparse = sparse_gradients_of(module);
    TW_EXPECTS(sparse.empty(), sparse.front(), " has sparse gradients, which operators that are divided along `tensor` do not have");
    for (const auto& [tensor, value] : tensors) {
      TW_EXPECTS(value.is_cpu(), tensor, " is on an accelerator, but operators are divided along `tensor` on CPUs only: use split layers");
    }
    graph::ModeGraphs captured = graph::capture_modes(module, forward, example);
    expect_no_communication(captured.training, name);
    expect_no_communication(captured.evaluation, name);
    return captured;
  });
  expect_same_on_all_ranks(mesh.comm(), "the module to divide along `tensor`", {whole.training.hash(), whole.evaluation.hash()});
  const splits::SplitGraphs of_root = on_all_ranks(mesh.comm(), "dividing operators along `tensor`", [&]() -> splits::SplitGraphs {
    if (mesh.comm().rank() != 0) return {};
    Tensors micro_batch;
    const int64_t rows = divide_up(example.front().size(0), options.micro_batches);
    for (const at::Tensor& each : example) micro_batch.push_back(each.narrow(0, 0, rows));
    return splits::split_graphs(whole, [&](const std::string& tensor) { return tensors.at(tensor); }, micro_batch,
                                {.ranks = holders.size(), .goal = options.split_goal, .whole = parameters_in_buffers(module)});
  });
  splits::SplitGraphs found = broadcast(mesh.comm(), of_root);
  DividedOperators divided = on_all_ranks(mesh.comm(), "dividing parameters along `tensor`", [&] {
    const c10::IValue ranks = tensor_parallel::ranks_argument(holders);
    complete(found.graphs.training, whole.training, name, ranks);
    complete(found.graphs.evaluation, whole.evaluation, name, ranks);
    return DividedOperators{module_of_slices(module, found.slices, holders), std::move(found.graphs), std::move(found.explanation)};
  });
  expect_same_numbers(mesh, {whole, tensors}, {divided.graphs, tensors_of(*divided.module)}, example);
  return divided;
}

}  // namespace tw
