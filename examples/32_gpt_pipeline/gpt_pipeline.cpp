// SPDX-License-Identifier: Apache-2.0
// A small GPT learns the licences in Debian, character by character. The module is ordinary LibTorch code. Torchweave captures it, measures it and
// plans a pipeline for the available ranks; each rank then trains its part. (Where each rank is to be one stage, parallelize() does this in one
// call.)
//
// Build:   cmake --build build/release --target 32_gpt_pipeline
// Run:     mpirun -n 2 build/release/bin/32_gpt_pipeline [STEPS]
// Expect:  the plan and its reasons; bits per character of unseen text, before (7.0) and after (about 2); a sample
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <tw/models/gpt.hpp>
#include <tw/mpi.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>

namespace {

using torch::Tensor;
constexpr int64_t context = 32;
constexpr int64_t batch = 32;

/// The characters of all installed licences, int64.
Tensor licences() {
  std::string text;
  for (const char* name : {"Apache-2.0", "LGPL-2.1", "GPL-2", "GPL-3"}) {
    std::ifstream file(std::string("/usr/share/common-licenses/") + name);
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  TORCH_CHECK(text.size() > 20 * context, "no licences below /usr/share/common-licenses");
  return torch::from_blob(text.data(), {static_cast<int64_t>(text.size())}, torch::kUInt8).to(torch::kInt64) % 128;
}

/// `context` + 1 characters from each of `starts`: [n, context + 1].
Tensor sequences(const Tensor& text, const Tensor& starts) { return text.index({starts.unsqueeze(1) + torch::arange(context + 1)}); }
Tensor inputs_of(const Tensor& characters) { return characters.narrow(1, 0, context); }
Tensor targets_of(const Tensor& characters) { return characters.narrow(1, 1, context); }

Tensor loss_of(const Tensor& logits, const Tensor& targets) { return torch::cross_entropy_loss(logits.flatten(0, 1), targets.flatten()); }

double bits(tw::pipeline::Pipeline& net, const Tensor& characters) {
  return loss_of(net.forward(inputs_of(characters)), targets_of(characters)).item<double>() / std::log(2.0);
}

/// `characters`, [1, context], followed by the `count` likeliest next ones.
std::string continued(tw::pipeline::Pipeline& net, Tensor characters, int count) {
  std::string text;
  for (int64_t i = 0; i < context; ++i) text += static_cast<char>(characters[0][i].item<int64_t>());
  text += " ... ";
  for (int i = 0; i < count; ++i) {
    const Tensor next = net.forward(characters).select(1, context - 1).argmax(1, /*keepdim=*/true);
    characters = torch::cat({characters.narrow(1, 1, context - 1), next}, 1);
    text += static_cast<char>(next.item<int64_t>());
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  const tw::Communicator world = mpi.world().dup();
  const int steps = argc > 1 ? std::stoi(argv[1]) : 1000;
  const Tensor text = licences();
  const Tensor train = text.narrow(0, 0, text.size(0) * 9 / 10);
  const Tensor unseen = sequences(text, torch::arange(train.size(0), text.size(0) - context, context));
  torch::manual_seed(1);  // on every rank: the same model, and the same batches
  tw::models::Gpt gpt(tw::models::GptOptions{.vocabulary = 128, .context = context, .width = 64, .heads = 4, .blocks = 3});

  const auto draw = [&] { return sequences(train, torch::randint(train.size(0) - context, {batch})); };
  const auto plan = tw::pipeline::plan_together(world, *gpt, inputs_of(draw()), {.devices = world.size(), .micro_batches = 4});
  const int used = plan.best().devices();
  if (world.rank() == 0) std::cout << plan.explain() << "\nthe plan uses " << used << " of " << world.size() << " ranks\n";
  const tw::Communicator comm = world.split(world.rank() < used ? 0 : 1, world.rank());
  if (world.rank() >= used) return 0;

  tw::pipeline::Pipeline net(comm, *gpt, plan);
  torch::manual_seed(2);
  torch::optim::Adam adam(net.parameters(), 3e-3);
  const double before = bits(net, unseen);
  for (int step = 0; step < steps; ++step) {
    adam.param_groups()[0].options().set_lr(3e-3 * std::min(step / 100.0, 1 - static_cast<double>(step) / steps));  // warm-up, then decay
    const Tensor characters = draw();
    adam.zero_grad();
    net.run(inputs_of(characters), targets_of(characters), loss_of);
    adam.step();
  }
  const double after = bits(net, unseen);
  const std::string sample = continued(net, inputs_of(unseen.narrow(0, 0, 1)), 120);
  if (comm.rank() == 0)
    std::cout << "bits per character: " << before << " before, " << after << " after " << steps << " steps\n" << sample << std::endl;
}
