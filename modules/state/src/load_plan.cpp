// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/state/layout.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "boxes.hpp"

namespace tw {
namespace {

/// Finds stored tensors by any of their names.
class Names {
 public:
  explicit Names(const std::vector<StoredTensor>& stored) {
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

 private:
  std::map<std::string, size_t> of_;
};

std::string what(ShardKind kind) { return kind == ShardKind::optimizer ? "optimizer state" : name_of(kind); }

// Why `spec` on `rank` cannot be loaded; empty if it can.
std::string misfit(const std::vector<StoredTensor>& stored, const std::set<size_t>& found, const ShardSpec& spec) {
  if (!lies_in(spec.box, spec.global.shape)) return concat("slice ", spec.box.describe(), " does not lie in ", spec.global.describe());
  if (found.empty()) return concat("missing in the checkpoint: ", what(spec.kind), " ", spec.global.describe());
  if (found.size() > 1) return concat(spec.global.name, " is one tensor here, but its names belong to several tensors in the checkpoint");
  const TensorSpec& other = stored[*found.begin()].spec;
  if (other.shape == spec.global.shape && other.dtype == spec.global.dtype) return "";
  return concat("different shape or dtype: ", spec.global.describe(), " is ", dtype_name(other.dtype), " ", shape_text(other.shape),
                " in the checkpoint");
}

/// The pieces of a stored tensor, found by file and by place.
class Pieces {
 public:
  explicit Pieces(const StoredTensor& tensor) : pieces_(tensor.pieces) {
    std::vector<const Box*> boxes;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      of_file_[pieces_[i].file].push_back(i);
      boxes.push_back(&pieces_[i].box);
    }
    for (const auto& [file, of_it] : of_file_) files_.push_back(file);
    along_ = dimension_of_cuts(boxes);
    by_place_.resize(pieces_.size());
    std::iota(by_place_.begin(), by_place_.end(), size_t{0});
    if (!along_) return;
    std::ranges::stable_sort(by_place_, {}, [&](size_t i) { return begin_of(i); });
    for (const StoredPiece& piece : pieces_) longest_ = std::max(longest_, piece.box.lengths[*along_]);
  }

  const StoredPiece& at(size_t index) const { return pieces_[index]; }
  size_t count() const noexcept { return pieces_.size(); }
  /// The ranks that have stored pieces, ascending.
  const std::vector<int64_t>& files() const noexcept { return files_; }
  /// Index of the piece that `rank` stored for exactly `box`; nullopt if there is none.
  std::optional<size_t> own(int64_t rank, const Box& box) const {
    const auto of_rank = of_file_.find(rank);
    if (of_rank == of_file_.end()) return std::nullopt;
    const auto found = std::ranges::find_if(of_rank->second, [&](size_t i) { return pieces_[i].box == box; });
    return found == of_rank->second.end() ? std::nullopt : std::optional(*found);
  }
  /// Indices of the pieces that may overlap `box`, ascending. The other pieces begin after its end, or so early that even the longest piece ends
  /// before `box` begins.
  std::vector<size_t> near(const Box& box) const {
    if (!along_) return by_place_;
    const auto from = std::ranges::upper_bound(by_place_, box.offsets[*along_] - longest_, {}, [&](size_t i) { return begin_of(i); });
    const auto to = std::ranges::lower_bound(by_place_, box.offsets[*along_] + box.lengths[*along_], {}, [&](size_t i) { return begin_of(i); });
    std::vector<size_t> found(std::min(from, to), to);
    std::ranges::sort(found);
    return found;
  }

 private:
  int64_t begin_of(size_t index) const { return pieces_[index].box.offsets[*along_]; }

  const std::vector<StoredPiece>& pieces_;
  std::map<int64_t, std::vector<size_t>> of_file_;
  std::vector<int64_t> files_;
  std::optional<size_t> along_;   // nullopt: boxes have no dimension to search along
  std::vector<size_t> by_place_;  // pieces in the order in which they begin along that dimension
  int64_t longest_ = 0;           // length of the longest piece along that dimension
};

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

/// Adds the part of `piece` inside `box`, if they overlap.
void add(ShardReads& reads, const StoredPiece& piece, const Box& box) {
  const auto common = intersection(piece.box, box);
  if (common) reads.reads.push_back({piece.file, piece.key, relative(common->offsets, piece.box), relative(common->offsets, box), common->lengths});
}

class LoadPlanner {
 public:
  using Combine = ShardReads::Combine;

  LoadPlanner(const std::vector<StoredTensor>& stored, int64_t stored_ranks, const std::vector<std::vector<ShardSpec>>& by_rank)
      : stored_(stored),
        names_(stored),
        pieces_(stored.begin(), stored.end()),
        as_many_ranks_(stored_ranks == static_cast<int64_t>(by_rank.size())),
        holding_(ranks_by_name(by_rank)) {}

  ShardReads plan(int64_t rank, const ShardSpec& spec) {
    const auto found = names_.find(spec);
    if (found.empty()) return {.combine = Combine::keep};  // load_problems() accepts that for `drop` only
    TW_EXPECTS(found.size() == 1, spec.global.name, " does not fit the checkpoint");
    const size_t tensor = *found.begin();
    const OnReshard stored_for = stored_[tensor].on_reshard;
    if (stored_for == OnReshard::shard || stored_for == OnReshard::replicate) return all_in(tensor, spec.box, Combine::copy);
    // Each old rank had its own tensor, except ranks without one, e.g. without optimizer state before their first update.
    const bool same_kind = spec.on_reshard == stored_for;
    const bool each_its_own = same_kind && is_as_before(spec.global.name, tensor);
    const auto own = each_its_own ? pieces_[tensor].own(rank, spec.box) : std::nullopt;
    if (own) {
      ShardReads reads;
      add(reads, pieces_[tensor].at(*own), spec.box);
      return reads;
    }
    if (stored_for == OnReshard::mean) return all_in(tensor, spec.box, Combine::mean);
    if (stored_for != OnReshard::sum) return {.combine = Combine::keep};
    if (!same_kind) return all_in(tensor, spec.box, Combine::sum);
    return each_its_own ? ShardReads{.combine = Combine::sum} : share_of_sum(tensor, rank, spec);
  }

 private:
  ShardReads all_in(size_t tensor, const Box& box, Combine combine) const {
    ShardReads reads{.combine = combine};
    for (const size_t i : pieces_[tensor].near(box)) add(reads, pieces_[tensor].at(i), box);
    if (combine != Combine::copy) std::ranges::stable_sort(reads.reads, {}, [](const Read& read) { return std::tie(read.to, read.lengths); });
    return reads;
  }

  /// Rank r of the n ranks that hold the tensor now gets the stored pieces r, r + n, ...
  ShardReads share_of_sum(size_t tensor, int64_t rank, const ShardSpec& spec) const {
    const std::vector<int64_t>& now = holding_.at(spec.global.name);
    ShardReads reads{.combine = Combine::sum};
    for (auto i = static_cast<size_t>(std::ranges::lower_bound(now, rank) - now.begin()); i < pieces_[tensor].count(); i += now.size()) {
      add(reads, pieces_[tensor].at(i), spec.box);
    }
    return reads;
  }

  /// Whether every rank that stored the tensor holds it now, so that each can have its own values back.
  bool is_as_before(const std::string& name, size_t tensor) {
    const auto [found, is_new] = as_before_.try_emplace({name, tensor});
    if (is_new) {
      const std::vector<int64_t>& now = holding_.at(name);
      const std::vector<int64_t>& then = pieces_[tensor].files();
      found->second = now == then || (as_many_ranks_ && std::ranges::includes(now, then));
    }
    return found->second;
  }

  const std::vector<StoredTensor>& stored_;
  Names names_;
  std::vector<Pieces> pieces_;  // by stored tensor
  bool as_many_ranks_;
  std::unordered_map<std::string_view, std::vector<int64_t>> holding_;
  std::map<std::pair<std::string, size_t>, bool> as_before_;  // by name in this run, and by stored tensor
};

}  // namespace

std::vector<std::string> load_problems(const std::vector<StoredTensor>& stored, int64_t stored_ranks,
                                       const std::vector<std::vector<ShardSpec>>& by_rank) {
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

std::vector<std::vector<ShardReads>> plan_load(const std::vector<StoredTensor>& stored, int64_t stored_ranks,
                                               const std::vector<std::vector<ShardSpec>>& by_rank) {
  LoadPlanner planner(stored, stored_ranks, by_rank);
  std::vector<std::vector<ShardReads>> plan(by_rank.size());
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const ShardSpec& spec : by_rank[rank]) plan[rank].push_back(planner.plan(static_cast<int64_t>(rank), spec));
  }
  return plan;
}

}  // namespace tw
