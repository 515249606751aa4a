// SPDX-License-Identifier: Apache-2.0
// P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009): two binary trees of the same
// ranks, in which no rank is an inner node of both. Blocks alternate between the two trees. So a rank forwards in one tree what it receives in both.
//
// In the paper the trees take turns, by an edge colouring. Here one step has the messages of both trees, in flight at the same time. All ranks count
// the same time steps: a block takes one step per level, and each further block of a tree one more.
#include <bit>

#include "builders.hpp"

namespace tw::algorithms {
namespace {

/// Places 1 to `size` in search-tree order: odd places are leaves, all others have children. Place 0 is above the top.
struct SearchTree {
  int size;

  /// For places other than 0.
  int parent_of(int place) const {
    const int bit = place & -place;
    const int halfway = (place ^ bit) | (2 * bit);
    return halfway <= size ? halfway : place ^ bit;
  }

  /// The child with the smaller place comes first.
  std::vector<int> children_of(int place) const {
    std::vector<int> children;
    if (place == 0 && size > 0) children.push_back(static_cast<int>(std::bit_floor(static_cast<unsigned>(size))));
    int half = (place & -place) / 2;
    if (half > 0) children.push_back(place - half);
    while (half > 0 && place + half > size) half /= 2;
    if (half > 0) children.push_back(place + half);
    return children;
  }

  // The second tree has other ranks at its even places: it counts backwards if that makes odd numbers even, otherwise it is shifted by one.
  int place_of(int number, int tree) const {
    if (tree == 0 || number == 0) return number;
    return size % 2 == 0 ? size + 1 - number : number % size + 1;
  }
  int number_at(int place, int tree) const {
    if (tree == 0 || place == 0) return place;
    return size % 2 == 0 ? size + 1 - place : around(place - 2, size) + 1;
  }
};

/// This rank's position in one of the trees. In broadcast and reduce the root is above both trees; in an all-reduce each tree has its own top.
struct Seat {
  Seat(const Task& task, int tree) {
    const bool has_root = task.collective != Collective::allreduce;
    const SearchTree all{has_root ? task.ranks - 1 : task.ranks};
    const int number_0 = has_root ? task.root : -1;
    const auto rank_at = [&](int place) { return around(all.number_at(place, tree) + number_0, task.ranks); };
    const int highest = has_root ? 0 : all.children_of(0).front();
    const int mine = all.place_of(has_root ? around(task.rank - task.root, task.ranks) : task.rank + 1, tree);
    for (int place = mine; place != highest; place = all.parent_of(place)) ++depth;
    if (mine != highest) parent = rank_at(all.parent_of(mine));
    for (const int child : all.children_of(mine)) children.push_back(rank_at(child));
  }

  bool is_highest() const { return parent < 0; }

  int depth = 0;
  int parent = -1;
  std::vector<int> children;
};

/// Steps, indexed by the time that all ranks count.
class Times {
 public:
  Step& operator[](int64_t time) {
    if (time >= static_cast<int64_t>(steps_.size())) steps_.resize(static_cast<size_t>(time) + 1);
    return steps_[static_cast<size_t>(time)];
  }
  /// The steps that do anything.
  std::vector<Step> steps() && {
    std::erase_if(steps_, [](const Step& step) { return step.sends.empty() && step.receives.empty() && step.local_operations.empty(); });
    return std::move(steps_);
  }

 private:
  std::vector<Step> steps_;
};

// A block leaves the highest place at time `begins`, and each lower level one step later.
void add_way_down(Times& times, const Seat& seat, int64_t block, int64_t begins) {
  const Run run{Area::output, block};
  if (!seat.is_highest()) times[begins + seat.depth - 1].receives.push_back({seat.parent, run});
  for (const int child : seat.children) times[begins + seat.depth].sends.push_back({child, run});
}

/// The buffers in which a rank adds up a block.
struct AddedUp {
  Run own;
  Run below;  ///< received from the first child
  Run other;  ///< received from the second child
  Run all;    ///< sum over the ranks below and this one
};

// The deepest ranks send at time `begins`, and each higher level one step later.
void add_way_up(Times& times, const Seat& seat, const AddedUp& at, int64_t begins, int64_t levels) {
  Run have = at.own;
  for (const int child : seat.children) {
    const Run got = child == seat.children.front() ? at.below : at.other;
    Step& step = times[begins + levels - seat.depth - 1];
    step.receives.push_back({child, got});
    step.local_operations.push_back(child == seat.children.front() ? reduce(got, have, at.all) : reduce(have, got, at.all));
    have = at.all;
  }
  if (!seat.is_highest()) times[begins + levels - seat.depth].sends.push_back({seat.parent, have});
}

constexpr int64_t slots_of_sums = 3;

// The input is not changed: while one sum is sent, the next one is made in another slot. The root receives blocks of both trees at the same time.
AddedUp in_scratch(const Seat& seat, int tree, int64_t block) {
  const auto slot = [&](int64_t number) { return Run{Area::scratch, block, 1, number}; };
  if (seat.is_highest()) return {{Area::input, block}, slot(tree), {}, {Area::output, block}};
  const Run below = slot(block / 2 % 2);
  return {{Area::input, block}, below, slot(2), below};
}

}  // namespace

Plan double_tree_broadcast(const Task& task) {
  Times times;
  for (const int tree : {0, 1}) {
    const Seat seat(task, tree);
    for (int64_t block = tree; block < task.pipelined; block += 2) add_way_down(times, seat, block, block / 2);
  }
  return {.blocks = task.pipelined, .scratch_slots = 0, .steps = std::move(times).steps()};
}

Plan double_tree_reduce(const Task& task) {
  Times times;
  for (const int tree : {0, 1}) {
    const Seat seat(task, tree);
    for (int64_t block = tree; block < task.pipelined; block += 2) {
      add_way_up(times, seat, in_scratch(seat, tree, block), block / 2, double_tree_levels(task));
    }
  }
  if (task.ranks == 1) times[0].local_operations.push_back(copy({Area::input, 0, task.pipelined}, {Area::output, 0, task.pipelined}));
  return {.blocks = task.pipelined, .scratch_slots = slots_of_sums, .steps = std::move(times).steps()};
}

// While some blocks travel up, earlier ones travel down.
Plan double_tree_allreduce(const Task& task) {
  const int64_t levels = double_tree_levels(task);
  Times times;
  for (const int tree : {0, 1}) {
    const Seat seat(task, tree);
    for (int64_t block = tree; block < task.pipelined; block += 2) {
      const Run in_place{Area::output, block};
      add_way_up(times, seat, {in_place, {Area::scratch, block, 1, 0}, {Area::scratch, block, 1, 1}, in_place}, block / 2, levels);
      add_way_down(times, seat, block, block / 2 + levels);
    }
  }
  return {.blocks = task.pipelined, .scratch_slots = 2, .steps = std::move(times).steps()};
}

int64_t double_tree_crossing_edges(int nodes, int ranks_per_node, Collective collective) {
  std::vector<int64_t> got(static_cast<size_t>(nodes)), sent = got;  // by node, downwards
  Task task{.collective = collective, .ranks = nodes * ranks_per_node};
  for (; task.rank < task.ranks; ++task.rank) {
    for (const int tree : {0, 1}) {
      const Seat seat(task, tree);
      if (seat.is_highest() || seat.parent / ranks_per_node == task.rank / ranks_per_node) continue;
      ++got[static_cast<size_t>(task.rank / ranks_per_node)];
      ++sent[static_cast<size_t>(seat.parent / ranks_per_node)];
    }
  }
  int64_t most = 0;
  for (size_t node = 0; node < got.size(); ++node) {  // an all-reduce sends the same again upwards
    most = std::max(most, collective == Collective::allreduce ? got[node] + sent[node] : std::max(got[node], sent[node]));
  }
  return most;
}

}  // namespace tw::algorithms
