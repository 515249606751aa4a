// SPDX-License-Identifier: Apache-2.0
// Every mesh data x tensor of the run's ranks against one process with the whole batch: 20 steps in float64, each parameter to 1e-12 in the 2-norm.
// DataParallel reduces along `data`; along `tensor` there is nothing to reduce. Tolerance as in layers_test.cpp.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/data_parallel.hpp>
#include <tw/tensor_parallel.hpp>

namespace mesh_training_test {

using namespace tw::tensor_parallel;
using tw::testing::world;

torch::nn::Sequential one_process() {
  torch::manual_seed(6);
  torch::nn::Sequential net(torch::nn::Embedding(17, 6), torch::nn::Linear(6, 7), torch::nn::Tanh(), torch::nn::Linear(7, 6), torch::nn::Tanh(),
                            torch::nn::Linear(6, 5));
  net->to(torch::kDouble);
  tw::testing::place_module(net);
  return net;
}

torch::nn::Sequential split_over(const tw::Communicator& tensor_axis) {
  torch::manual_seed(6);
  torch::nn::Sequential net(VocabParallelEmbedding(tensor_axis, 17, 6), ColumnParallelLinear(tensor_axis, 6, 7), torch::nn::Tanh(),
                            RowParallelLinear(tensor_axis, 7, 6), torch::nn::Tanh(), torch::nn::Linear(6, 5));
  net->to(torch::kDouble);
  tw::testing::place_module(net);
  return net;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(bool adam, const torch::nn::Sequential& net) {
  if (adam) return std::make_unique<torch::optim::Adam>(net->parameters(), 1e-3);
  return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
}

void expect_equivalence(const tw::Mesh& mesh, bool adam, bool overlap) {
  SCOPED_TRACE(mesh.shape().describe());
  constexpr int64_t batch = 6;  // of each rank of the data axis
  torch::nn::Sequential reference = one_process();
  torch::nn::Sequential ours = split_over(mesh["tensor"]);
  const auto reference_optimizer = make_optimizer(adam, reference);
  const auto our_optimizer = make_optimizer(adam, ours);
  const tw::DataParallel parallel(mesh["data"], *ours, {.reduction = tw::Reduction::mean, .overlap = overlap});
  for (int step = 0; step < 20; ++step) {
    torch::manual_seed(static_cast<uint64_t>(1000 + step));
    const int64_t samples = batch * mesh["data"].size();
    const at::Tensor words = tw::testing::place(torch::randint(17, {samples}, torch::kLong));
    const at::Tensor classes = tw::testing::place(torch::randint(5, {samples}, torch::kLong));
    reference_optimizer->zero_grad();
    torch::cross_entropy_loss(reference->forward(words), classes).backward();
    reference_optimizer->step();

    const int64_t begin = batch * mesh.coordinate("data");
    our_optimizer->zero_grad();
    torch::cross_entropy_loss(ours->forward(words.narrow(0, begin, batch)), classes.narrow(0, begin, batch)).backward();
    our_optimizer->step();
  }
  const auto expected = reference->named_parameters();
  std::vector<tw::NamedShard> shards;
  for (const auto& parameter : ours->named_parameters()) shards.push_back(tw::whole(parameter.key(), parameter.value(), tw::ShardKind::parameter));
  for (const tw::NamedShard& shard : sliced(*ours, shards)) {
    at::Tensor whole = expected[shard.name];
    for (int64_t d = 0; d < whole.dim(); ++d) whole = whole.narrow(d, shard.offsets[static_cast<size_t>(d)], shard.tensor.size(d));
    EXPECT_LE((shard.tensor - whole).norm().item<double>(), 1e-12 * whole.norm().item<double>()) << shard.name;
  }
}

TEST(MeshTraining, DataTimesTensorIsOneProcess) {
  for (int data = 1; data <= world().size(); ++data) {
    if (world().size() % data != 0) continue;
    const tw::Mesh mesh(world(), {{"data", data}, {"tensor", -1}});
    for (const bool adam : {false, true}) {
      for (const bool overlap : {false, true}) expect_equivalence(mesh, adam, overlap);
    }
  }
}

}  // namespace mesh_training_test
