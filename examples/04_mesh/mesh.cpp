// SPDX-License-Identifier: Apache-2.0
// Ranks arranged along named axes. Along "data" they hold replicas of a model, along "stage" its parts. Each axis has its own communicators.
// (This shows the communicators alone; parallelize() trains a model on such a mesh: docs/mesh.md.)
//
// Build:   cmake --build build/release --target 04_mesh
// Run:     build/release/mpirun -n 4 build/release/bin/04_mesh
// Expect:  the mesh is data=2 x stage=2     (one stage if the number of ranks is odd)
//          rank 0: data 0, stage 0; gradient 2 over 2 replicas; 3 at the end of 2 stages; rank 0 by stage
//          rank 1: data 0, stage 1; gradient 3 over 2 replicas; 3 at the end of 2 stages; rank 2 by stage
//          rank 2: data 1, stage 0; gradient 2 over 2 replicas; 13 at the end of 2 stages; rank 1 by stage
//          rank 3: data 1, stage 1; gradient 3 over 2 replicas; 13 at the end of 2 stages; rank 3 by stage
//          refused: rank 0: the mesh data=2 x stage=2 has no axis 'stages' [and where]
#include <torch/torch.h>

#include <iostream>
#include <sstream>
#include <tw/comm.hpp>

/// The replicas of a stage average its gradient: here stage + 1 on the first replica, stage + 3 on the second, and so on.
double averaged_gradient(const tw::Mesh& mesh) {
  const at::Tensor gradient = torch::tensor(1.0 + mesh.coordinate("stage") + 2 * mesh.coordinate("data"));
  tw::allreduce(mesh["data"], gradient, tw::ReduceOp::average);
  return gradient.item<double>();
}

/// Sends a value from stage to stage; each adds its number plus 1. All stages receive the final value.
double through_the_stages(const tw::Mesh& mesh) {
  const tw::Communicator& line = mesh["stage"];
  const at::Tensor value = torch::tensor(10.0 * mesh.coordinate("data"));
  if (line.rank() > 0) tw::recv(line, value, tw::Rank(line.rank() - 1));
  value.add_(line.rank() + 1);
  if (line.rank() + 1 < line.size()) tw::send(line, value, tw::Rank(line.rank() + 1));
  tw::broadcast(line, value, tw::Rank(line.size() - 1));
  return value.item<double>();
}

int main() {
  const tw::Environment mpi;
  const int stages = mpi.world().size() % 2 == 0 ? 2 : 1;
  const tw::Mesh mesh(mpi.world(), {{"data", -1}, {"stage", stages}});  // -1: the remaining ranks
  const tw::Communicator& comm = mesh.comm();
  if (comm.rank() == 0) std::cout << "the mesh is " << mesh.shape().describe() << std::endl;

  const tw::Mesh by_stage = mesh.sub({"stage", "data"});  // the same ranks, "data" varies fastest; mesh.sub({"data"}) is only my replicas
  std::ostringstream text;
  text << "rank " << comm.rank() << ": data " << mesh.coordinate("data") << ", stage " << mesh.coordinate("stage");
  text << "; gradient " << averaged_gradient(mesh) << " over " << mesh["data"].size() << " replicas";
  text << "; " << through_the_stages(mesh) << " at the end of " << mesh["stage"].size() << " stages";
  text << "; rank " << by_stage.comm().rank() << " by stage";
  for (const std::string& line : tw::gather_strings(comm, text.str(), tw::Rank(0))) std::cout << line << std::endl;  // printed on rank 0

  try {
    mesh["stages"];
  } catch (const tw::ContractError& error) {
    if (comm.rank() == 0) std::cout << "refused: " << error.what() << std::endl;
  }
}
