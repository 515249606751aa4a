// SPDX-License-Identifier: Apache-2.0
// A TorchScript file as Python's torch.jit.script(net).save(path) writes it: make_torchscript FILE
#include <torch/script.h>

int main(int /*argc*/, char** argv) {
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
  script.save(argv[1]);
}
