// SPDX-License-Identifier: Apache-2.0
#include "replicas.hpp"

#include <algorithm>
#include <map>
#include <tw/base/concat.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/gradients/shard_plan.hpp>
#include <utility>

namespace tw {
namespace {

/// Indices of gradients, in the order of `names`; skips unknown names.
std::vector<size_t> ids_of(const std::vector<TensorSpec>& specs, const std::vector<std::string>& names) {
  std::vector<size_t> ids;
  for (const std::string& name : names) {
    const auto found = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& spec) { return spec.name == name; });
    if (found != specs.end()) ids.push_back(static_cast<size_t>(found - specs.begin()));
  }
  return ids;
}

bool is_sparse(const ReducerOptions& options, const std::string& name) {
  return std::find(options.sparse.begin(), options.sparse.end(), name) != options.sparse.end();
}

}  // namespace

Replicas::Replicas(const Communicator& comm, const BucketPlan& plan, const std::vector<TensorSpec>& specs, const ReducerOptions& options,
                   const BucketBuffers& buffers) {
  const bool whole = options.sharding == Sharding::none;
  const std::vector<ShardPiece> pieces = whole ? std::vector<ShardPiece>() : shard_pieces(plan, specs, comm.rank(), comm.size());
  for (const auto& part : options.parts) {
    for (const auto& [holders, names] : part->replicated) {
      Held held{holders, {}};
      std::vector<std::string> elements;  // by position in `names`, since other holders may use other names
      int64_t place = 0;
      for (const size_t id : ids_of(specs, names)) {
        ++place;
        if (is_sparse(options, specs[id].name)) continue;  // gathered in rank order, so equal already
        if (whole) held.gradients.push_back(buffers.place(static_cast<int64_t>(id)));
        for (const ShardPiece& piece : pieces) {
          if (piece.gradient != static_cast<int64_t>(id)) continue;
          const auto bucket = static_cast<size_t>(piece.bucket);
          const at::Tensor& share = buffers.share(bucket);
          const int64_t begin = plan.buckets[bucket].owner < 0 ? comm.rank() * share.numel() : 0;
          held.gradients.push_back(share.narrow(0, piece.offset - begin, piece.count));
          elements.push_back(concat("gradient ", place, ", ", piece.count, " elements from ", piece.begin));
        }
      }
      if (!whole) expect_same_on_all_ranks(holders, "the slices of gradients that several ranks of a model hold", elements);
      if (!held.gradients.empty()) all_.push_back(std::move(held));
    }
  }
}

void Replicas::make_equal() const {
  for (const auto& [holders, gradients] : all_) broadcast(holders, gradients, Rank(0));
}

std::vector<int64_t> groups_of_replicas(const std::vector<TensorSpec>& gradients, const ModelPartsList& parts, const std::vector<int64_t>& groups) {
  if (parts.empty()) return groups;
  using Kind = std::vector<int64_t>;  // the caller's group, then for each set of holders whether the parameter is replicated there
  std::vector<Kind> kinds(gradients.size());
  for (size_t id = 0; id < gradients.size(); ++id) kinds[id].push_back(groups.empty() ? 0 : groups[id]);
  for (const auto& part : parts) {
    for (const ReplicatedParameters& each : part->replicated) {
      for (Kind& kind : kinds) kind.push_back(0);
      for (const size_t id : ids_of(gradients, each.names)) kinds[id].back() = 1;
    }
  }
  std::map<Kind, int64_t> numbers;
  for (const Kind& kind : kinds) numbers.emplace(kind, 0);
  int64_t next = 0;
  for (auto& [kind, number] : numbers) number = next++;
  std::vector<int64_t> numbered;
  for (const Kind& kind : kinds) numbered.push_back(numbers.at(kind));
  return numbered;
}

}  // namespace tw
