// SPDX-License-Identifier: Apache-2.0
#include "module_tensors.hpp"

#include <c10/util/Type.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <tw/base/concat.hpp>
#include <tw/base/text_stream.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/state/optimizer_state.hpp>
#include <typeinfo>

namespace tw {
namespace {

using torch::optim::Optimizer;

// Parameters named by position, which the ranks share even if names are unknown.
std::vector<NamedTensor> parameters_of(Optimizer& optimizer) {
  std::vector<NamedTensor> parameters;
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const auto& members = optimizer.param_groups()[group].params();
    for (size_t i = 0; i < members.size(); ++i) parameters.push_back({concat("group ", group, ", parameter ", i), members[i]});
  }
  return parameters;
}

// Calls `visit(key, options)` for the defaults and for every group.
template <class Visit>
void for_each_options(Optimizer& optimizer, const Visit& visit) {
  visit("defaults", optimizer.defaults());
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) visit(concat(group), optimizer.param_groups()[group].options());
}

// Uses LibTorch's own serialisation, which knows the options of every optimizer.
std::string options_of(Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  for_each_options(optimizer, [&](const std::string& key, const torch::optim::OptimizerOptions& options) {
    torch::serialize::OutputArchive nested(archive.compilation_unit());
    options.serialize(nested);
    archive.write(key, nested);
  });
  TextWriter out;
  archive.save_to(out);
  return std::move(out).str();
}

void set_options(Optimizer& optimizer, const std::string& saved) {
  torch::serialize::InputArchive archive;
  archive.load_from(saved.data(), saved.size());
  for_each_options(optimizer, [&](const std::string& key, torch::optim::OptimizerOptions& options) {
    torch::serialize::InputArchive nested;
    archive.read(key, nested);
    options.serialize(nested);
  });
}

// Creates on every rank the state entries that the root has, with any values.
void prepare_like_root(const Communicator& comm, OptimizerState& state, Rank root) {
  std::vector<std::string> names;
  for (const NamedShard& shard : state.shards()) names.push_back(shard.name);
  state.prepare(broadcast_object(comm, names, root));
}

}  // namespace

void synchronize(const Communicator& comm, Optimizer& optimizer, Rank root) {
  const std::vector<NamedTensor> parameters = parameters_of(optimizer);
  std::vector<std::string> lines = lines_of(specs_of(parameters));
  lines.insert(lines.begin(), c10::demangle(typeid(optimizer).name()));
  expect_same_on_all_ranks(comm, "the optimizers to be synchronised", lines);
  OptimizerState state(optimizer, parameters);

  const std::string options = broadcast_string(comm, comm.rank() == root ? options_of(optimizer) : std::string(), root);
  if (comm.rank() != root) set_options(optimizer, options);

  prepare_like_root(comm, state, root);
  const std::vector<NamedShard> shards = state.shards();
  std::vector<NamedTensor> tensors;
  for (const NamedShard& shard : shards) tensors.push_back({shard.name, shard.tensor});
  synchronize(comm, tensors, root);
  state.apply(shards);
}

}  // namespace tw
