// SPDX-License-Identifier: Apache-2.0
// A GPT with its blocks in parallel over depth learns the licences in Debian, character by character. The first two and the last two blocks are
// computed serially and exactly. The blocks in between are solved with two iterations in each direction.
//
// Build:   cmake --build build/release --target 24_gpt_layers
// Run:     mpirun -n 2 build/release/bin/24_gpt_layers [STEPS = 400] [SEED = 1]
// Expect:  bits per character of unseen text, for the parallel run and for a serial one with the same batches: within 2 %
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/models/gpt.hpp>
#include <tw/mpi.hpp>

namespace {

using torch::Tensor;
using namespace tw::layer_parallel;
constexpr int64_t context = 32;
const tw::models::GptOptions gpt{.vocabulary = 128, .context = context, .width = 48, .heads = 4, .blocks = 20};

Tensor licences() {
  std::string text;
  for (const char* name : {"Apache-2.0", "LGPL-2.1", "GPL-2", "GPL-3"}) {
    std::ifstream file(std::string("/usr/share/common-licenses/") + name);
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  return torch::from_blob(text.data(), {static_cast<int64_t>(text.size())}, torch::kUInt8).to(torch::kInt64) % 128;
}

Tensor sequences(const Tensor& text, const Tensor& starts) { return text.index({starts.unsqueeze(1) + torch::arange(context + 1)}); }

Tensor loss_of(LayerParallel& net, const Tensor& characters) {
  return torch::cross_entropy_loss(net.forward(characters.narrow(1, 0, context)).flatten(0, 1), characters.narrow(1, 1, context).flatten());
}

/// @param levels 1: serial. @return bits per character of unseen text
double train(const tw::Communicator& comm, int levels, int steps, uint64_t seed) {
  const Tensor text = licences();
  const Tensor seen = text.narrow(0, 0, text.size(0) * 9 / 10);
  const Tensor unseen = sequences(text, torch::arange(seen.size(0), text.size(0) - context, context));
  LayerParallel net(comm,
                    {block([] { return tw::models::GptOpening(gpt); }, 1), block([] { return tw::models::GptBranch(gpt); }, gpt.blocks),
                     block([] { return tw::models::gpt_closing(gpt); }, 1)},
                    {.final_time = static_cast<double>(gpt.blocks),  // each block is a step of length 1, as in any transformer
                     .levels = levels,
                     .coarsening = 4,
                     .forward = {.iterations = 2, .cycle = {.relaxations = 0}},
                     .backward = {.iterations = 2, .cycle = {.relaxations = 0}},
                     .front_layers = 2,
                     .back_layers = 2,
                     .seed = seed});
  torch::manual_seed(seed);
  torch::optim::Adam adam(net.parameters(), 3e-3);
  for (int step = 0; step < steps; ++step) {
    adam.param_groups()[0].options().set_lr(3e-3 * std::min(step / 50.0, 1 - static_cast<double>(step) / steps));  // warm-up, then decay
    adam.zero_grad();
    loss_of(net, sequences(seen, torch::randint(seen.size(0) - context, {16}))).backward();
    adam.step();
  }
  const torch::NoGradGuard no_grad;
  if (levels > 1 && comm.rank() == 0) std::cout << net.report().blocks[0].forward.describe();
  return loss_of(net, unseen).item<double>() / std::log(2.0);
}

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  const tw::Communicator& world = mpi.world();
  const int steps = argc > 1 ? std::stoi(argv[1]) : 400;
  const uint64_t seed = argc > 2 ? std::stoul(argv[2]) : 1;
  const double parallel = train(world, 2, steps, seed);
  const double serial = train(world, 1, steps, seed);
  if (world.rank() == 0) {
    std::cout << "bits per character after " << steps << " steps: " << parallel << " in parallel, " << serial << " serial, "
              << 100 * (parallel / serial - 1) << " % more" << std::endl;
  }
}
