// SPDX-License-Identifier: Apache-2.0
#include "reducer_options.hpp"

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>

namespace tw {

void visit(ReducerOptions& options, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, Reduction>> reductions{
      {"sum", Reduction::sum}, {"mean", Reduction::mean}, {"sample_weighted", Reduction::sample_weighted}};
  visitor.field("reduction", options.reduction, reductions, {.meaning = "how the gradients of the ranks are combined"});
  visitor.group("buckets", options.buckets);
  visitor.field("overlap", options.overlap,
                About{.meaning = "reduce a bucket as soon as its last gradient is ready; by default only if the ranks span several nodes"});
  visitor.field("shared_memory", options.shared_memory, {.meaning = "keep buckets in memory that the ranks of a node share"});
  visitor.field("check_finite", options.check_finite, {.meaning = "check whether the reduced gradients are finite"});
  visitor.field("sharding", options.sharding, sharding_names(), {.meaning = "how the reduced gradients are divided among the ranks"});
  visitor.field("release", options.release,
                {.meaning = "keep only this rank's share of sharded gradients (ZeRO 2)", .applies_if = {{"sharding", {"none"}, /*negated=*/true}}});
  visitor.field("arrival_order", options.arrival_order, at_least(0),
                {.meaning = "ids of the gradients, in the order in which they become ready; by default measured"});
  visitor.field("groups", options.groups, Bounds{}, {.meaning = "group of each gradient; gradients of different groups share no bucket"});
  visitor.field("sparse", options.sparse, {.meaning = "names of gradients that are sparse tensors"});
  visitor.presence("parts", !options.parts.empty());
  visitor.presence("compressor", options.compressor != nullptr);
}

void expect_same_on_all_ranks(const Communicator& comm, const std::vector<TensorSpec>& specs, const ReducerOptions& options) {
  std::vector<std::string> lines = value_lines(options);
  if (options.compressor) lines.push_back(concat("compression ", options.compressor->describe()));
  for (std::string& line : lines_of(specs)) lines.push_back(std::move(line));
  expect_same_on_all_ranks(comm, "the gradients to be reduced", lines);
}

std::vector<uint8_t> find_sparse(const std::vector<TensorSpec>& specs, const std::vector<std::string>& names) {
  std::vector<uint8_t> sparse(specs.size());
  for (const std::string& name : names) {
    const auto found = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& spec) { return spec.name == name; });
    TW_EXPECTS(found != specs.end() && !found->shape.empty(), "ReducerOptions::sparse names ", name,
               ", but there is no such gradient with at least one dimension");
    sparse[static_cast<size_t>(found - specs.begin())] = 1;
  }
  return sparse;
}

void validate(const ReducerOptions& options, const std::vector<TensorSpec>& specs, const std::vector<uint8_t>& sparse) {
  expect_chosen(options.reduction);
  std::vector<int64_t> dense;
  for (size_t id = 0; id < specs.size(); ++id) {
    TW_EXPECTS(c10::isFloatingType(specs[id].dtype) || c10::isComplexType(specs[id].dtype), "gradient ", specs[id].describe(),
               " must be floating point or complex");
    TW_EXPECTS(specs[id].dtype != at::kHalf || options.reduction != Reduction::sample_weighted, "gradient ", specs[id].describe(),
               " would overflow when it is multiplied by a number of samples: weight the loss, and use Reduction::sum");
    if (sparse[id] == 0) dense.push_back(static_cast<int64_t>(id));
  }
  TW_EXPECTS(options.device.is_cpu() || options.sparse.empty(), "gradients on ", options.device.str(),
             " cannot be sparse yet: ", options.sparse.front());
  std::vector<int64_t> order = options.arrival_order;
  std::sort(order.begin(), order.end());
  TW_EXPECTS(order.empty() || order == dense, "arrival_order must list each gradient that is not sparse exactly once");
  TW_EXPECTS(options.groups.empty() || options.groups.size() == specs.size(), "groups must have one entry for each of ", specs.size(), " gradients");
  const bool sharded = options.sharding != Sharding::none;
  TW_EXPECTS(sharded || !options.release, "ReducerOptions::release needs sharded gradients: set ReducerOptions::sharding");
  TW_EXPECTS(!sharded || options.sparse.empty(), "sparse gradients cannot be sharded: ", options.sparse.front());
  TW_EXPECTS(!sharded || !options.compressor, "sharded gradients cannot be compressed");
}

}  // namespace tw
