// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/hierarchy.hpp>

#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/mpi/locality.hpp>
#include <tw/mpi/topology.hpp>

namespace tw {
namespace {

void expect_equal_groups(const Communicator& above, const Communicator& group, const std::string& name) {
  const std::vector<std::string> sizes = allgather_strings(above, concat(group.size()));
  for (size_t rank = 1; rank < sizes.size(); ++rank) {
    TW_EXPECTS(sizes[rank] == sizes[0], "groups that are to be cartesian have equal sizes: the ", name, " of rank 0 of '", above.name(), "' has ",
               sizes[0], " ranks, that of rank ", rank, " has ", sizes[rank]);
  }
}

}  // namespace

Level node_level(const Communicator& comm) { return {"node", concat(ranks_of_this_node(comm).front())}; }

Level numa_level() { return {"numa", numa_nodes_here()}; }

Hierarchy::Hierarchy(const Communicator& comm, const std::vector<Level>& levels, Between between) {
  TW_EXPECTS(!levels.empty(), "a hierarchy has at least one level");
  for (const Level& level : levels) names_.push_back(level.name);
  expect_same_on_all_ranks(comm, "the levels of a hierarchy", names_);
  const Communicator* above = &comm;
  inside_.reserve(levels.size());
  for (const Level& level : levels) {
    inside_.push_back(above->split(level.key));
    const Communicator& group = inside_.back();
    if (between == Between::cartesian) expect_equal_groups(*above, group, level.name);
    const bool speaks = between == Between::cartesian || group.rank() == 0;
    between_.push_back(above->split(speaks ? concat("place ", group.rank()) : concat("silent ", above->rank())));
    speaks_.push_back(speaks);
    above = &group;
  }
}

const Communicator& Hierarchy::inside(int level) const {
  TW_EXPECTS(level >= 0 && level < levels(), "there is no level ", level, " among ", levels());
  return inside_[static_cast<size_t>(level)];
}

const Communicator* Hierarchy::between(int level) const {
  TW_EXPECTS(level >= 0 && level < levels(), "there is no level ", level, " among ", levels());
  return speaks_[static_cast<size_t>(level)] ? &between_[static_cast<size_t>(level)] : nullptr;
}

std::string Hierarchy::describe() const {
  std::string text;
  for (int level = 0; level < levels(); ++level) {
    const Communicator* others = between(level);
    const std::string groups = others == nullptr ? "" : concat(others->size(), " ");
    text += concat(text.empty() ? "" : ", ", groups, names_[static_cast<size_t>(level)], " of ", inside(level).size(), " ranks");
  }
  return text;
}

}  // namespace tw
