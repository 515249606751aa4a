// SPDX-License-Identifier: Apache-2.0
// Trains a model from a TorchScript file, as Python writes it with torch.jit.script(net).save("net.pt"). So that the example needs no Python, it
// first writes the file itself. Afterwards `torchweave train configs/torchscript.toml` can train it as well.
//
// Build:   cmake --build build/release --target 07_torchscript_model
// Run:     mpirun -n 2 build/release/bin/07_torchscript_model
// Expect:  101,770 parameters from runs/07_torchscript_model/net.pt: test accuracy 0.82 after 3 epochs        (above 0.75)
#include <torch/script.h>
#include <torch/torch.h>

#include <iostream>
#include <tw/train.hpp>

namespace {

void write_model(const std::filesystem::path& path) {
  torch::manual_seed(1);
  const torch::nn::Linear hidden(784, 128);
  const torch::nn::Linear output(128, 10);
  torch::jit::Module net("net");
  net.register_parameter("w1", hidden->weight, /*is_buffer=*/false);
  net.register_parameter("b1", hidden->bias, /*is_buffer=*/false);
  net.register_parameter("w2", output->weight, /*is_buffer=*/false);
  net.register_parameter("b2", output->bias, /*is_buffer=*/false);
  net.define(
      "def forward(self, x):\n"
      "  hidden = torch.relu(torch.matmul(x.flatten(1), self.w1.t()) + self.b1)\n"
      "  return torch.matmul(hidden, self.w2.t()) + self.b2\n");
  std::filesystem::create_directories(path.parent_path());
  net.save(path.string());
}

// The first `samples` of a data set, in memory.
tw::TensorDataset first(const tw::Dataset& dataset, int64_t samples) {
  std::vector<int64_t> indices(static_cast<size_t>(samples));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  const tw::Batch batch = dataset.batch(indices);
  return {batch.inputs, batch.targets};
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  const tw::train::Options options{.name = "07_torchscript_model", .epochs = 3, .batch_size = 32};
  const auto path = options.folder() / "net.pt";
  if (comm.rank() == 0) write_model(path);
  comm.barrier();

  const tw::train::Model model = tw::train::load_torchscript(path);
  torch::optim::Adam adam(model.tensors(), 2e-3);
  const std::filesystem::path directory = "/usr/share/datasets/fashion-mnist";
  const auto train_set = first(tw::load_mnist(directory, tw::Split::train), 6000);
  const auto test_set = first(tw::load_mnist(directory, tw::Split::test), 1000);
  const auto summary = tw::train::Trainer(comm, model, adam, tw::train::classification(), train_set, test_set, options).run();
  if (comm.rank() == 0) {
    std::cout << summary.parameters << " parameters from " << path.string() << ": test accuracy " << tw::train::figure(summary.test, "accuracy")
              << " after " << summary.epochs << " epochs" << std::endl;
  }
}
