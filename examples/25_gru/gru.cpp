// SPDX-License-Identifier: Apache-2.0
// The adding problem: in a long sequence of numbers two are marked, and the network must output their sum at the end. A GRU learns it, with the time
// steps divided among the ranks and computed in parallel.
//
// Build:   cmake --build build/release --target 25_gru
// Run:     mpirun -n 2 build/release/bin/25_gru [updates = 300] [steps = 64]
// Expect:  a mean squared error below 0.05 (always guessing 1 has 0.17)
#include <torch/torch.h>
#include <tw/layer_parallel/recurrent.hpp>
#include <tw/mpi.hpp>

#include <cstdio>
#include <cstdlib>

using namespace tw::layer_parallel;
using torch::Tensor;

struct Batch {
  Tensor sequences;  // [steps, batch, 2]: numbers from 0 to 1, and marks
  Tensor sums;       // [batch, 1]
};

Batch make_batch(int64_t steps, int64_t batch) {
  const Tensor numbers = torch::rand({steps, batch});
  const Tensor marks = torch::zeros({steps, batch});
  marks.scatter_(0, torch::randint(steps / 2, {1, batch}), 1);
  marks.scatter_(0, torch::randint(steps / 2, steps, {1, batch}), 1);
  return {torch::stack({numbers, marks}, -1), (numbers * marks).sum(0).unsqueeze(1)};
}

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv, {.thread_level = tw::ThreadLevel::serialized});
  const tw::Communicator& world = mpi.world();
  const int updates = argc > 1 ? std::atoi(argv[1]) : 300;
  const int64_t steps = argc > 2 ? std::atoi(argv[2]) : 64;

  Recurrent gru(world, {.input_size = 2, .hidden_size = 32, .coarsening = 4});
  torch::manual_seed(1);  // the same batches and the same last layer on all ranks
  torch::nn::Linear last(32, 1);
  std::vector<Tensor> parameters = gru.parameters();
  for (const Tensor& parameter : last->parameters()) parameters.push_back(parameter);
  torch::optim::Adam adam(parameters, 0.01);

  const auto [begin, end] = gru.block(steps);  // this rank's time steps
  double mean = 0;
  for (int update = 1; update <= updates; ++update) {
    const Batch batch = make_batch(steps, 64);
    const RecurrentOutput found = gru.forward(batch.sequences.narrow(0, begin, end - begin), steps);
    const Tensor loss = torch::mse_loss(last->forward(found.hidden[0]), batch.sums);
    adam.zero_grad();
    loss.backward();
    torch::nn::utils::clip_grad_norm_(parameters, 1.0);
    adam.step();
    mean += (loss.item<double>() - mean) / std::min(update, 20);
    if (world.rank() == 0 && (update % 100 == 0 || update == updates)) std::printf("update %d: mean squared error %.4f\n", update, mean);
  }
  if (world.rank() == 0) std::printf("%s", gru.report().blocks[0].forward.describe().c_str());
}
