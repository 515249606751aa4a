// SPDX-License-Identifier: Apache-2.0
// Meshes of real ranks: each communicator holds the ranks that MeshShape gives, in its order.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <tw/comm.hpp>

namespace mesh_ranks_test {

using tw::Mesh;
using tw::MeshAxis;
using tw::testing::world;

/// Every mesh of up to three axes on the ranks of this run.
std::vector<std::vector<MeshAxis>> all_axes() {
  const int ranks = world().size();
  std::vector<std::vector<MeshAxis>> all;
  for (int a = 1; a <= ranks; ++a) {
    if (a == ranks) all.push_back({{"a", a}});
    for (int b = 1; b <= ranks; ++b) {
      if (a * b == ranks) all.push_back({{"a", a}, {"b", b}});
      if (ranks % (a * b) == 0) all.push_back({{"a", a}, {"b", b}, {"c", -1}});
    }
  }
  return all;
}

/// The world ranks of the members of `comm`, in its order.
std::vector<int> world_ranks(const tw::Communicator& comm) {
  const at::Tensor mine = torch::full({1}, int{world().rank()}, torch::kInt);
  const at::Tensor all = torch::empty({comm.size()}, torch::kInt);
  tw::allgather(comm, mine, all);
  return {all.data_ptr<int>(), all.data_ptr<int>() + comm.size()};
}

// A rank's summand: no two sets of ranks have the same sum.
int64_t value_of(int rank) { return int64_t{1} << (10 * rank); }

TEST(Mesh, HasACommunicatorForEveryAxis) {
  for (const auto& axes : all_axes()) {
    const Mesh mesh(world(), axes);
    SCOPED_TRACE(mesh.shape().describe());
    EXPECT_EQ(mesh.comm().size(), world().size());
    EXPECT_EQ(mesh.comm().rank(), world().rank());
    const auto coordinates = mesh.shape().coordinates_of(world().rank());
    for (size_t i = 0; i < axes.size(); ++i) {
      const std::string& name = axes[i].name;
      const auto line = mesh.shape().group_of(world().rank(), {name});
      EXPECT_EQ(mesh[name].size(), mesh.shape().axes()[i].size) << name;
      EXPECT_EQ(mesh[name].rank(), coordinates[i]) << name;
      EXPECT_EQ(mesh.coordinate(name), coordinates[i]) << name;
      EXPECT_EQ(world_ranks(mesh[name]), line) << name;  // ascending: the coordinate is the rank there
    }
  }
}

TEST(Mesh, SumsAlongAnAxisAreThoseOfItsRanks) {
  for (const auto& axes : all_axes()) {
    const Mesh mesh(world(), axes);
    SCOPED_TRACE(mesh.shape().describe());
    for (const MeshAxis& axis : axes) {
      int64_t expected = 0;
      for (const int other : mesh.shape().group_of(world().rank(), {axis.name})) expected += value_of(other);
      const at::Tensor sum = torch::full({5}, value_of(world().rank()), torch::kLong);
      tw::allreduce(mesh[axis.name], sum, tw::ReduceOp::sum);
      EXPECT_TRUE(sum.eq(expected).all().item<bool>()) << axis.name << ": " << sum[0].item<int64_t>() << " instead of " << expected;
    }
  }
}

TEST(Mesh, ASubMeshHoldsTheRanksThatDifferOnItsAxesInTheirOrder) {
  for (const auto& axes : all_axes()) {
    const Mesh mesh(world(), axes);
    SCOPED_TRACE(mesh.shape().describe());
    for (const MeshAxis& first : axes) {
      for (const MeshAxis& second : axes) {
        std::vector<std::string> names{first.name};
        if (second.name != first.name) names.push_back(second.name);
        const Mesh sub = mesh.sub(names);
        ASSERT_EQ(sub.shape().axes().size(), names.size());  // the same on all ranks
        EXPECT_EQ(sub.comm().rank(), sub.shape().rank_at([&] {
          std::vector<int> coordinates;
          for (const std::string& name : names) coordinates.push_back(mesh.coordinate(name));
          return coordinates;
        }()));
        for (size_t i = 0; i < names.size(); ++i) {
          EXPECT_EQ(sub.shape().axes()[i].name, names[i]);
          EXPECT_EQ(sub.shape().axes()[i].size, mesh[names[i]].size());
          EXPECT_EQ(sub.coordinate(names[i]), mesh.coordinate(names[i]));
          EXPECT_EQ(world_ranks(sub[names[i]]), world_ranks(mesh[names[i]]));
        }
        std::vector<int> members = world_ranks(sub.comm());
        std::sort(members.begin(), members.end());
        EXPECT_EQ(members, mesh.shape().group_of(world().rank(), names));
      }
    }
  }
}

TEST(Mesh, ASubMeshOfASubMeshIsThatOfTheWhole) {
  for (const auto& axes : all_axes()) {
    if (axes.size() < 3) continue;
    const Mesh mesh(world(), axes);
    SCOPED_TRACE(mesh.shape().describe());
    const Mesh there = mesh.sub({"c", "a"}).sub({"a"});
    EXPECT_EQ(there.shape().describe(), mesh.sub({"a"}).shape().describe());
    EXPECT_EQ(world_ranks(there.comm()), world_ranks(mesh["a"]));
  }
}

TEST(Mesh, HasCommunicatorsOfItsOwn) {
  const auto backend_of_barriers = [](const tw::Communicator& comm) -> std::string {
    for (const tw::Availability& entry : tw::availability(comm)) {
      if (entry.collective == tw::Collective::barrier && entry.chosen) return entry.backend;
    }
    return "none";
  };
  const Mesh mesh(world(), {{"a", -1}});
  tw::choose_backend(mesh.comm(), "mpi");
  EXPECT_EQ(backend_of_barriers(mesh.comm()), "mpi");
  EXPECT_EQ(backend_of_barriers(mesh["a"]), "shared_memory");
  EXPECT_EQ(backend_of_barriers(world()), "shared_memory");
  const at::Tensor in_world = torch::ones({3});
  const at::Tensor in_mesh = torch::full({3}, 2);
  const at::Tensor along = torch::full({3}, 4);
  tw::Work first = tw::iallreduce(world(), in_world, tw::ReduceOp::sum);
  tw::Work second = tw::iallreduce(mesh.comm(), in_mesh, tw::ReduceOp::sum);
  tw::Work third = tw::iallreduce(mesh["a"], along, tw::ReduceOp::sum);
  third.wait();
  second.wait();
  first.wait();
  EXPECT_EQ(in_world[0].item<int>(), world().size());
  EXPECT_EQ(in_mesh[0].item<int>(), 2 * world().size());
  EXPECT_EQ(along[0].item<int>(), 4 * world().size());
}

// Ranks dealt out over nodes, as by `mpirun --map-by node`: every second one comes last.
tw::Communicator dealt_out() { return world().split(0, world().rank() % 2 * world().size() + world().rank()); }

// If all ranks share a node nothing changes. In a cluster test on two hosts of two ranks, pairs share a node.
TEST(Mesh, OnNodesKeepsNeighboursTogether) {
  const tw::Communicator comm = dealt_out();
  const int split = world().size() % 2 == 0 ? 2 : 1;
  const Mesh mesh = Mesh::on_nodes(comm, {{"data", -1}, {"tensor", split}});
  const tw::Topology there = tw::find_topology(comm);
  EXPECT_EQ(mesh.comm().rank() == 0, comm.rank() == 0);
  EXPECT_EQ(mesh.comm().rank(), mesh.shape().rank_at({mesh.coordinate("data"), mesh.coordinate("tensor")}));
  EXPECT_NE(mesh.layout().find(tw::concat("mesh data=", world().size() / split, " x tensor=", split, " over ", there.nodes, " node")),
            std::string::npos)
      << mesh.layout();
  if (there.nodes == 1) {
    EXPECT_EQ(world_ranks(mesh.comm()), world_ranks(comm));
    EXPECT_EQ(mesh.comm().name(), comm.name() + "/dup");  // a duplicate: its ranks are those of `comm`
  } else if (there.local_size == 2 && world().size() == 4) {
    EXPECT_EQ(tw::find_topology(mesh["tensor"]).nodes, 1) << mesh.layout();
    EXPECT_NE(mesh.layout().find("(ranks 1 and 2 change places)"), std::string::npos) << mesh.layout();
  }
  EXPECT_EQ(Mesh(comm, {{"data", -1}}).layout(), "");
}

TEST(Mesh, RefusesAlikeOnEveryRankAndBeforeAnythingIsSent) {
  EXPECT_THROW(Mesh(world(), {{"a", world().size() + 1}}), tw::ContractError);
  EXPECT_THROW(Mesh(world(), {}), tw::ContractError);
  EXPECT_THROW(Mesh::on_nodes(world(), {{"a", world().size() + 1}}), tw::ContractError);
  const Mesh mesh(world(), {{"a", -1}, {"b", 1}});
  EXPECT_THROW(mesh["x"], tw::ContractError);
  EXPECT_THROW(mesh.coordinate("x"), tw::ContractError);
  EXPECT_THROW(mesh.sub({"a", "x"}), tw::ContractError);
  world().barrier();  // still usable
}

TEST(Mesh, Moves) {
  Mesh mesh(world(), {{"a", -1}});
  const Mesh moved = std::move(mesh);
  EXPECT_EQ(moved["a"].size(), world().size());
  EXPECT_EQ(world_ranks(moved["a"]).back(), world().size() - 1);
}

}  // namespace mesh_ranks_test
