// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/state/layout.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "boxes.hpp"

namespace tw {
namespace {

/// Finds stored tensors by any of their names.
class Names {
 public:
  explicit Names(const std::vector<StoredTensor>& stored) : stored_(stored) {
    for (size_t i = 0; i < stored.size(); ++i) {
      of_.emplace(stored[i].spec.name, i);
      for (const std::string& alias : stored[i].aliases) of_.emplace(alias, i);
    }
  }

  /// All stored tensors that match a name of `spec`; exactly one, unless there is an error.
  std::set<size_t> find(const ShardSpec& spec) const {
    std::set<size_t> found;
    const auto look = [&](const std::string& name) {
      if (const auto at = of_.find(name); at != of_.end()) found.insert(at->second);
    };
    look(spec.global.name);
    for (const std::string& alias : spec.aliases) look(alias);
    return found;
  }

  const StoredTensor& only(const ShardSpec& spec) const {
    const auto found = find(spec);
    TW_EXPECTS(found.size() == 1, spec.global.name, " does not fit the checkpoint");
    return stored_[*found.begin()];
  }

 private:
  const std::vector<StoredTensor>& stored_;
  std::map<std::string, size_t> of_;
};

std::string what(ShardKind kind) { return kind == ShardKind::optimizer ? "optimizer state" : name_of(kind); }

// Why `spec` on `rank` cannot be loaded; empty if it can.
std::string misfit(const std::vector<StoredTensor>& stored, const std::set<size_t>& found, const ShardSpec& spec) {
  if (!lies_in(spec.box, spec.global.shape)) return concat("slice ", spec.box.describe(), " does not lie in ", spec.global.describe());
  if (found.empty()) return concat("missing in the checkpoint: ", what(spec.kind), " ", spec.global.describe());
  if (found.size() > 1) return concat(spec.global.name, " is one tensor here, but several in the checkpoint");
  const TensorSpec& other = stored[*found.begin()].spec;
  if (other.shape == spec.global.shape && other.dtype == spec.global.dtype) return "";
  return concat("misshapen: ", spec.global.describe(), " is ", dtype_name(other.dtype), " ", shape_text(other.shape), " in the checkpoint");
}

std::vector<int64_t> holders_of(const StoredTensor& tensor) {
  std::set<int64_t> ranks;
  for (const StoredPiece& piece : tensor.pieces) ranks.insert(piece.file);
  return {ranks.begin(), ranks.end()};
}

/// Whether `rank` has stored its own values of these elements.
bool has_own(const StoredTensor& tensor, int64_t rank, const Box& box) {
  return std::ranges::any_of(tensor.pieces, [&](const StoredPiece& piece) { return piece.file == rank && piece.box == box; });
}

/// By tensor name: ranks that have a shard of it, ascending.
std::unordered_map<std::string_view, std::vector<int64_t>> ranks_by_name(const std::vector<std::vector<ShardSpec>>& by_rank) {
  std::unordered_map<std::string_view, std::vector<int64_t>> ranks;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const ShardSpec& spec : by_rank[rank]) {
      std::vector<int64_t>& of_name = ranks[spec.global.name];
      if (of_name.empty() || of_name.back() != static_cast<int64_t>(rank)) of_name.push_back(static_cast<int64_t>(rank));
    }
  }
  return ranks;
}

// The part of `piece` inside `box`; none if they do not overlap.
std::optional<Read> read_of(const StoredPiece& piece, const Box& box) {
  const auto common = intersection(piece.box, box);
  if (!common) return std::nullopt;
  return Read{piece.file, piece.key, relative(common->offsets, piece.box), relative(common->offsets, box), common->lengths};
}

ShardReads copy_reads(const StoredTensor& tensor, const Box& box) {
  ShardReads reads;
  if (box.numel() == 0) return reads;
  for (const StoredPiece& piece : tensor.pieces) {
    if (auto read = read_of(piece, box)) reads.reads.push_back(std::move(*read));
  }
  return reads;
}

}  // namespace

std::vector<std::string> misfits(const std::vector<StoredTensor>& stored, int64_t stored_ranks, const std::vector<std::vector<ShardSpec>>& by_rank) {
  const Names names(stored);
  const bool other_ranks = stored_ranks != static_cast<int64_t>(by_rank.size());
  const auto forgiven = [&](OnReshard on_reshard) { return other_ranks && on_reshard == OnReshard::drop; };
  std::vector<std::string> problems;
  std::set<std::string> seen;
  std::set<size_t> used;
  for (const auto& shards : by_rank) {
    for (const ShardSpec& spec : shards) {
      const auto found = names.find(spec);
      used.insert(found.begin(), found.end());
      if (found.empty() && forgiven(spec.on_reshard)) continue;
      std::string problem = misfit(stored, found, spec);
      if (!problem.empty() && seen.insert(problem).second) problems.push_back(std::move(problem));
    }
  }
  for (size_t i = 0; i < stored.size(); ++i) {
    if (used.contains(i) || forgiven(stored[i].on_reshard)) continue;
    problems.push_back(concat("extra in the checkpoint: ", what(stored[i].kind), " ", stored[i].spec.describe()));
  }
  return problems;
}

std::vector<ShardReads> plan_load(const std::vector<StoredTensor>& stored, int64_t stored_ranks, const std::vector<std::vector<ShardSpec>>& by_rank,
                                  int64_t rank) {
  const Names names(stored);
  const bool as_many_ranks = stored_ranks == static_cast<int64_t>(by_rank.size());
  const auto holding = ranks_by_name(by_rank);
  std::vector<ShardReads> plan;
  for (const ShardSpec& spec : by_rank[static_cast<size_t>(rank)]) {
    const auto found = names.find(spec);
    if (found.empty()) {  // misfits() accepts that for `drop` only
      plan.push_back({.combine = ShardReads::Combine::keep});
      continue;
    }
    const StoredTensor& tensor = names.only(spec);
    if (tensor.on_reshard == OnReshard::shard || tensor.on_reshard == OnReshard::replicate) {
      plan.push_back(copy_reads(tensor, spec.box));
      continue;
    }
    // Each old rank had its own tensor, except ranks without one, e.g. without optimizer state before their first update.
    const std::vector<int64_t>& now = holding.at(spec.global.name);
    const std::vector<int64_t> then = holders_of(tensor);
    const bool same_kind = spec.on_reshard == tensor.on_reshard;
    const bool each_its_own = same_kind && (now == then || (as_many_ranks && std::includes(now.begin(), now.end(), then.begin(), then.end())));
    const bool mine = each_its_own && has_own(tensor, rank, spec.box);
    const auto place = static_cast<size_t>(std::find(now.begin(), now.end(), rank) - now.begin());
    ShardReads reads{.combine = mine                                   ? ShardReads::Combine::copy
                                : tensor.on_reshard == OnReshard::sum  ? ShardReads::Combine::sum
                                : tensor.on_reshard == OnReshard::mean ? ShardReads::Combine::mean
                                                                       : ShardReads::Combine::keep};
    for (size_t i = 0; i < tensor.pieces.size() && reads.combine != ShardReads::Combine::keep; ++i) {
      const StoredPiece& piece = tensor.pieces[i];
      if (mine && piece.file != rank) continue;
      if (reads.combine == ShardReads::Combine::sum && same_kind && (each_its_own || i % now.size() != place)) continue;
      if (mine && piece.box != spec.box) continue;  // another slice of this rank
      if (auto read = read_of(piece, spec.box)) reads.reads.push_back(std::move(*read));
    }
    std::ranges::stable_sort(reads.reads, {}, [](const Read& read) { return std::tie(read.to, read.lengths); });
    plan.push_back(std::move(reads));
  }
  return plan;
}

}  // namespace tw
