// SPDX-License-Identifier: Apache-2.0
// A module of one's own, divided over four ranks in four ways. Each trains on the same samples, and gives the numbers of one process.
//
// Build:   cmake --build build/release --target 00_parallelize
// Run:     build/release/mpirun -n 4 build/release/bin/00_parallelize
// Expect:  data=4             loss 0.0033...      [the first digits are the same in all lines]
//          shard=4            loss 0.0033...
//          data=2 x stage=2   loss 0.0033...
//          shard=2 x stage=2  loss 0.0033...
//          all the same: yes
#include <torch/torch.h>

#include <cmath>
#include <iostream>
#include <tw/parallel_model.hpp>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(4, 64));
    middle = register_module("middle", torch::nn::Linear(64, 64));
    last = register_module("last", torch::nn::Linear(64, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor h = torch::tanh(first(x));
    return last(h + torch::tanh(middle(h)));
  }
  torch::nn::Linear first{nullptr};
  torch::nn::Linear middle{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Net);

/// The mean loss of the last of 100 updates, of 64 samples each.
double trained(const tw::Mesh& mesh) {
  torch::manual_seed(1);
  Net net;
  tw::ParallelModel model = tw::parallelize(mesh, *net, {torch::rand({16, 4})}, {.micro_batches = 2});
  torch::optim::AdamW adam(model.parameters(), 3e-3);
  double loss = 0;
  for (int64_t update = 0; update < 100; ++update) {
    torch::manual_seed(static_cast<uint64_t>(update));
    const at::Tensor inputs = torch::rand({64, 4});
    const at::Tensor targets = inputs.prod(1, true);
    const int64_t count = 64 / model.places();  // this rank's samples
    adam.zero_grad();
    loss = model.train_step(inputs.narrow(0, model.place() * count, count), targets.narrow(0, model.place() * count, count), torch::nn::MSELoss());
    model.clip_grad_norm(1.0);
    adam.step();
  }
  return loss;
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  const int half = comm.size() / 2;
  bool same = true;
  double first = 0;
  for (const std::vector<tw::MeshAxis>& axes :
       {std::vector<tw::MeshAxis>{{"data", -1}}, {{"shard", -1}}, {{"data", half}, {"stage", 2}}, {{"shard", half}, {"stage", 2}}}) {
    const tw::Mesh mesh(comm, axes);
    const double loss = trained(mesh);
    if (first == 0) first = loss;
    same = same && std::abs(loss - first) < 1e-4 * first;
    if (comm.rank() == 0) std::cout << mesh.shape().describe() << "  loss " << loss << std::endl;
  }
  if (comm.rank() == 0) std::cout << "all the same: " << (same ? "yes" : "no") << std::endl;
}
