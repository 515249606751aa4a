// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/state/layout.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "boxes.hpp"

namespace tw {
namespace {

/// A rank's shard.
struct Holder {
  int64_t rank = 0;
  int64_t shard = 0;
};

/// A box and all ranks that hold it.
struct HeldBox {
  size_t tensor = 0;  // index in SavePlan::tensors
  Box box;
  std::vector<Holder> holders;
};

bool is_one_tensor(OnReshard on_reshard) { return on_reshard == OnReshard::shard || on_reshard == OnReshard::replicate; }

bool may_be_cut(OnReshard on_reshard) { return on_reshard == OnReshard::shard || on_reshard == OnReshard::mean; }

bool is_floating(c10::ScalarType dtype) { return c10::isFloatingType(dtype) || c10::isComplexType(dtype); }

class Planner {
 public:
  Planner(const std::vector<std::vector<ShardSpec>>& by_rank, int64_t smallest_cut_bytes)
      : by_rank_(by_rank), smallest_cut_bytes_(smallest_cut_bytes), written_bytes_(by_rank.size(), 0) {
    plan_.by_rank.resize(by_rank.size());
  }

  SavePlan plan() {
    for (size_t rank = 0; rank < by_rank_.size(); ++rank) {
      for (size_t shard = 0; shard < by_rank_[rank].size(); ++shard) gather({static_cast<int64_t>(rank), static_cast<int64_t>(shard)});
    }
    check();
    for (size_t tensor = 0; tensor < plan_.tensors.size(); ++tensor) group(tensor);
    for (const auto& [ranks, boxes] : groups_) spread(ranks.second, boxes);
    for (StoredTensor& tensor : plan_.tensors) {
      std::sort(tensor.pieces.begin(), tensor.pieces.end(),
                [](const StoredPiece& a, const StoredPiece& b) { return std::tie(a.box, a.file) < std::tie(b.box, b.file); });
    }
    return std::move(plan_);
  }

 private:
  const ShardSpec& spec(const Holder& holder) const { return by_rank_[static_cast<size_t>(holder.rank)][static_cast<size_t>(holder.shard)]; }

  template <class... Parts>
  void problem(const Parts&... parts) {
    problems_ += concat("\n  ", parts...);
  }

  void gather(const Holder& holder) {
    const ShardSpec& mine = spec(holder);
    const auto [found, is_new] = tensor_of_.emplace(mine.global.name, plan_.tensors.size());
    if (is_new) {
      plan_.tensors.push_back({mine.global, mine.aliases, mine.kind, mine.on_reshard, {}, mine.layers});
      holders_.emplace_back();
    }
    std::vector<Holder>& holders = holders_[found->second];
    if (!holders.empty()) {
      for (auto other = holders.rbegin(); other != holders.rend() && other->rank == holder.rank; ++other) {
        if (may_be_cut(mine.on_reshard) && spec(*other).box != mine.box) continue;
        problem(mine.global.name, " appears twice on rank ", holder.rank);
        break;
      }
      ShardSpec expected = spec(holders.front());
      expected.box = mine.box;
      if (!(mine == expected)) {
        problem(mine.global.name, " is ", describe(mine), " on rank ", holder.rank, ", but ", describe(expected), " on rank ", holders.front().rank);
      }
    }
    holders.push_back(holder);
  }

  static std::string describe(const ShardSpec& spec) {
    std::string text =
        concat(name_of(spec.kind), " ", dtype_name(spec.global.dtype), " ", shape_text(spec.global.shape), " ", name_of(spec.on_reshard));
    for (const std::string& alias : spec.aliases) text += ", alias " + alias;
    if (!spec.layers.empty()) text += ", layers " + spec.layers;
    return text;
  }

  void check() {
    std::set<std::string> names;
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      const StoredTensor& tensor = plan_.tensors[i];
      if (!names.insert(tensor.spec.name).second) problem(tensor.spec.name, " is also an alias of another tensor");
      for (const std::string& alias : tensor.aliases) {
        if (!names.insert(alias).second) problem(alias, ", an alias of ", tensor.spec.name, ", is also a name of another tensor");
      }
      if (tensor.on_reshard == OnReshard::sum && tensor.spec.dtype == c10::ScalarType::Bool)
        problem(tensor.spec.name, ": a bool tensor cannot have OnReshard::sum");
      if (tensor.on_reshard == OnReshard::mean && !is_floating(tensor.spec.dtype)) {
        problem(tensor.spec.name, ": ", dtype_name(tensor.spec.dtype), " tensors cannot have OnReshard::mean");
      }
      if (const std::string why = stack_problem(tensor.spec, tensor.layers); !why.empty()) problem(why);
      check_boxes(tensor, holders_[i]);
    }
    TW_EXPECTS(problems_.empty(), "these tensors cannot be saved:", problems_);
  }

  void check_boxes(const StoredTensor& tensor, const std::vector<Holder>& holders) {
    if (!may_be_cut(tensor.on_reshard)) {
      for (const Holder& holder : holders) {
        if (spec(holder).box != whole_box(tensor.spec.shape)) {
          problem(tensor.spec.name, " has OnReshard::", name_of(tensor.on_reshard), " and must be passed whole, but rank ", holder.rank, " passes ",
                  spec(holder).box.describe(), " only");
        }
      }
      return;
    }
    std::set<Box> boxes;
    for (const Holder& holder : holders) boxes.insert(spec(holder).box);
    const std::string why = tiling_problem(tensor.spec.shape, {boxes.begin(), boxes.end()});
    if (!why.empty()) problem(tensor.spec.name, ": ", why);
  }

  // Assigns the boxes of `tensor` to their holders. A buffer goes to the first holder; other boxes with several holders form groups.
  void group(size_t tensor) {
    const std::vector<Holder>& holders = holders_[tensor];
    const bool one = is_one_tensor(plan_.tensors[tensor].on_reshard);
    std::map<Box, std::vector<Holder>> boxes;
    for (const Holder& holder : holders) {
      if (!one) {
        write(tensor, holder, spec(holder).box);
      } else if (spec(holder).box.numel() > 0) {
        boxes[spec(holder).box].push_back(holder);
      }
    }
    if (one && boxes.empty()) write(tensor, holders.front(), spec(holders.front()).box);  // a tensor without elements
    for (auto& [box, held_by] : boxes) {
      if (plan_.tensors[tensor].kind == ShardKind::buffer) {  // buffers may differ between holders, and their values must not be mixed
        write(tensor, held_by.front(), box);
        continue;
      }
      std::vector<int64_t> ranks;
      for (const Holder& holder : held_by) ranks.push_back(holder.rank);
      groups_[{ranks.size(), ranks}].push_back({tensor, box, std::move(held_by)});
    }
  }

  int64_t bytes_of(size_t tensor, const Box& box) const {
    return box.numel() * static_cast<int64_t>(c10::elementSize(plan_.tensors[tensor].spec.dtype));
  }

  void write(size_t tensor, const Holder& holder, const Box& box) {
    StoredTensor& stored = plan_.tensors[tensor];
    std::string key = stored.spec.name;
    if (box != whole_box(stored.spec.shape)) key += box.describe();
    while (key != stored.spec.name && tensor_of_.contains(key)) key += "'";
    stored.pieces.push_back({holder.rank, key, box});
    plan_.by_rank[static_cast<size_t>(holder.rank)].push_back({holder.shard, key, box});
    written_bytes_[static_cast<size_t>(holder.rank)] += bytes_of(tensor, box);
  }

  // Bytes that each of `ranks` writes so that the totals are as even as possible: water-filling over the bytes that they write already.
  std::vector<int64_t> shares(const std::vector<int64_t>& ranks, int64_t bytes) const {
    std::vector<int64_t> before;
    for (const int64_t rank : ranks) before.push_back(written_bytes_[static_cast<size_t>(rank)]);
    std::vector<int64_t> sorted = before;
    std::sort(sorted.begin(), sorted.end());
    int64_t level = 0;
    int64_t below = 0;
    for (size_t i = 0; i < sorted.size(); ++i) {  // the i + 1 ranks with the least bytes reach the level
      below += sorted[i];
      const auto count = static_cast<int64_t>(i) + 1;
      level = divide_up(bytes + below, count);
      if (i + 1 == sorted.size() || level <= sorted[i + 1]) break;
    }
    for (int64_t& value : before) value = std::max<int64_t>(level - value, 0);
    return before;
  }

  // Concatenates `boxes` and cuts them into the ranks' shares.
  void spread(const std::vector<int64_t>& ranks, const std::vector<HeldBox>& boxes) {
    int64_t bytes = 0;
    for (const HeldBox& held : boxes) bytes += bytes_of(held.tensor, held.box);
    std::vector<int64_t> room = shares(ranks, bytes);
    size_t at = 0;
    for (const HeldBox& held : boxes) {
      Box rest = held.box;
      const int64_t box_bytes = bytes_of(held.tensor, held.box);
      const auto dimension = static_cast<size_t>(std::find_if(rest.lengths.begin(), rest.lengths.end(), [](int64_t length) { return length > 1; }) -
                                                 rest.lengths.begin());
      const bool can_cut = dimension < rest.lengths.size() && box_bytes >= smallest_cut_bytes_;
      const int64_t rows = can_cut ? rest.lengths[dimension] : 1;
      const int64_t row_bytes = box_bytes / rows;
      for (int64_t left = rows; left > 0;) {
        while (at + 1 < ranks.size() && room[at] < (row_bytes + 1) / 2) ++at;
        const bool last = at + 1 == ranks.size();
        const int64_t taken = last ? left : std::clamp<int64_t>((room[at] + row_bytes / 2) / row_bytes, 1, left);
        Box part = rest;
        if (can_cut) {
          part.lengths[dimension] = taken;
          rest.offsets[dimension] += taken;
          rest.lengths[dimension] -= taken;
        }
        write(held.tensor, held.holders[at], part);
        room[at] -= taken * row_bytes;
        left -= taken;
      }
    }
  }

  const std::vector<std::vector<ShardSpec>>& by_rank_;
  const int64_t smallest_cut_bytes_;
  SavePlan plan_;
  std::map<std::string, size_t> tensor_of_;
  std::vector<std::vector<Holder>> holders_;  // by tensor
  std::string problems_;
  std::vector<int64_t> written_bytes_;  // by rank
  // By number of holders, then holders. Groups with fewer ranks have less choice and come first.
  std::map<std::pair<size_t, std::vector<int64_t>>, std::vector<HeldBox>> groups_;
};

}  // namespace

std::string stack_problem(const TensorSpec& tensor, const std::string& layers) {
  if (layers.empty()) return "";
  if (tensor.shape.empty()) return tensor.name + " has no dimension along which layers could lie";
  if (layers.find("{}") == std::string::npos)
    return concat("the layers of ", tensor.name, " are called \"", layers, "\", without {} for their number");
  return "";
}

SavePlan plan_save(const std::vector<std::vector<ShardSpec>>& by_rank, int64_t smallest_cut_bytes) {
  return Planner(by_rank, smallest_cut_bytes).plan();
}

}  // namespace tw
