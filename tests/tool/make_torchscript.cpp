// SPDX-License-Identifier: Apache-2.0
// A TorchScript file as Python's torch.jit.script(net).save(path) writes it: make_torchscript FILE [norm]. With "norm", one that classifies images by
// way of a batch norm over single numbers.
#include <torch/script.h>

namespace {

torch::jit::Module with_norm() {
  torch::jit::Module script("net");
  script.register_attribute("training", c10::BoolType::get(), true);
  script.register_parameter("weight", torch::randn({10, 784}, torch::requires_grad()), /*is_buffer=*/false);
  script.register_parameter("scale", torch::ones({10}, torch::requires_grad()), /*is_buffer=*/false);
  script.register_parameter("shift", torch::zeros({10}, torch::requires_grad()), /*is_buffer=*/false);
  script.register_buffer("mean", torch::zeros({10}));
  script.register_buffer("variance", torch::ones({10}));
  script.define(R"(
    def forward(self, x):
      y = torch.matmul(x.flatten(1), self.weight.t())
      assert not (self.training and y.size(0) == 1), "expected more than one value per channel in training"
      return torch.batch_norm(y, self.scale, self.shift, self.mean, self.variance, self.training, 0.1, 1e-5, False)
  )");
  return script;
}

torch::jit::Module without_norm() {
  torch::jit::Module script("net");
  script.register_parameter("first", torch::randn({12, 8}, torch::requires_grad()), /*is_buffer=*/false);
  script.register_parameter("second", torch::randn({12, 12}, torch::requires_grad()), /*is_buffer=*/false);
  script.register_buffer("shift", torch::randn({12}));
  script.define(R"(
    def forward(self, x):
      y = torch.tanh(torch.matmul(x, self.first.t()) + self.shift)
      for i in range(3):
        y = torch.tanh(torch.matmul(y, self.second))
      return y
  )");
  return script;
}

}  // namespace

int main(int argc, char** argv) { (argc > 2 ? with_norm() : without_norm()).save(argv[1]); }
