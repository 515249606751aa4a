// SPDX-License-Identifier: Apache-2.0
// Checkpoints, and a search.
#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/exact_text.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/objects.hpp>
#include <tw/search/search.hpp>
#include <tw/state/checkpoint_store.hpp>

#include "comparison.hpp"
#include "part.hpp"
#include "working_folder.hpp"

namespace tw::tool::selftest {
namespace {

/// The tensors of a checkpoint on the ranks of `comm`: whole ones, and one whose rows are divided. The values do not depend on the number of ranks.
std::vector<NamedShard> shards_on(const Communicator& comm) {
  torch::manual_seed(5);
  const int64_t rows = 2003;
  const int64_t begin = rows * comm.rank() / comm.size();
  const int64_t end = rows * (comm.rank() + 1) / comm.size();
  NamedShard slice = whole("rows", at::randn({rows, 3}, at::kDouble).slice(0, begin, end).clone(), ShardKind::parameter);
  slice.global_shape = {rows, 3};
  slice.offsets = {begin, 0};
  slice.on_reshard = OnReshard::shard;
  return {slice, whole("whole", at::randn({300, 7}), ShardKind::parameter), whole("half", at::randn({5, 5}).to(at::kBFloat16), ShardKind::buffer),
          whole("counter", at::randint(1000, {}, at::kLong), ShardKind::counter)};
}

void expect_loaded(Comparison& comparison, const Communicator& comm, const std::filesystem::path& folder, const std::string& what) {
  const std::vector<NamedShard> expected = shards_on(comm);
  std::vector<NamedShard> loaded = expected;
  for (NamedShard& shard : loaded) shard.tensor = at::zeros_like(shard.tensor);
  const CheckpointStore store(comm, folder);
  comparison.expect(store.newest_valid() == 1, what + ": the checkpoint is not valid");
  comparison.expect(store.load(1, loaded) == "selftest", what + ": the metadata differ");
  for (size_t i = 0; i < loaded.size(); ++i)
    comparison.expect(loaded[i].tensor.equal(expected[i].tensor), concat(what, ": ", loaded[i].name, " differs"));
}

double bowl(const search::Configuration& c) { return std::pow(c.real("x") - 0.5, 2) + std::abs(static_cast<double>(c.integer("n")) - 3); }

}  // namespace

Outcome compare_checkpoints(const Communicator& comm, const Conditions& conditions) {
  const WorkingFolder folder(comm, conditions.folder);
  const std::vector<NamedShard> saved = shards_on(comm);
  if (conditions.is_wrong_here) saved.front().tensor.add_(1);
  {
    CheckpointStore store(comm, folder.path());
    store.save(1, saved, "selftest");
    store.wait();
  }
  Comparison comparison;
  for (const int ranks : std::set<int>{1, std::max(1, comm.size() / 2), std::max(1, comm.size() - 1), comm.size()}) {
    const Communicator some = comm.split(comm.rank() < ranks ? 0 : 1, comm.rank());
    if (comm.rank() < ranks) expect_loaded(comparison, some, folder.path(), concat("loaded on ", ranks, ranks == 1 ? " rank" : " ranks"));
    barrier(comm);
  }
  return comparison.outcome();
}

Outcome compare_search(const Communicator& comm, const Conditions& conditions) {
  const int64_t trials = std::max(8, 2 * comm.size());
  double least_here = conditions.is_wrong_here ? -1 : std::numeric_limits<double>::infinity();  // other ranks may evaluate all trials
  const auto objective = [&](const search::Configuration& configuration, search::Trial& /*trial*/) -> search::Outcome {
    if (conditions.is_wrong_here) throw Error("this trial is meant to fail");
    const double loss = bowl(configuration);
    least_here = std::min(least_here, loss);
    return loss;
  };
  search::Search search(comm, {search::real("x", 0, 1), search::integer("n", 1, 8)}, objective, {.evaluations = trials, .seed = 5});
  const search::SearchResult result = search.run();

  const at::Tensor least = at::scalar_tensor(least_here, at::kDouble);
  allreduce(comm, least, ReduceOp::min);
  std::string best = concat(result.best.trial, ' ', exact_text(result.best.loss));
  for (const double value : result.best.values) best += ' ' + exact_text(value);
  std::string failure;
  for (const std::string& of_rank : allgather_strings(comm, result.first_failure)) failure = failure.empty() ? of_rank : failure;
  Comparison comparison;
  comparison.expect(result.complete == trials, concat(result.complete, " of ", trials, " trials are complete; ", failure));
  comparison.expect(all_agree(comm, best), "ranks found different best trials");
  comparison.expect(result.best.loss == least.item<double>(), "the best trial does not have the least loss");
  return comparison.outcome();
}

}  // namespace tw::tool::selftest
