// SPDX-License-Identifier: Apache-2.0
// An ordinary LibTorch program: a small network learns to classify the points of two spirals. five_lines.cpp does the same on many ranks.
//
// Build:   cmake --build build/release --target 01_original
// Run:     build/release/bin/01_original
// Expect:  epoch 30: accuracy 1 (0.98 or better)
#include <torch/torch.h>

#include <cmath>
#include <iostream>

// 2000 points on two interleaved spirals.
struct Spirals : torch::data::datasets::Dataset<Spirals> {
  torch::data::Example<> get(size_t index) override {
    const auto arm = static_cast<int64_t>(index % 2);
    const double along = static_cast<double>(index) / 2000;
    const double angle = 3 * M_PI * (along + 0.05) + M_PI * static_cast<double>(arm);
    return {torch::tensor({along * std::cos(angle), along * std::sin(angle)}, torch::kFloat), torch::tensor(arm)};
  }
  std::optional<size_t> size() const override { return 2000; }
};

int main() {
  torch::manual_seed(1);
  const auto dataset = Spirals().map(torch::data::transforms::Stack<>());
  torch::nn::Sequential model(torch::nn::Linear(2, 64), torch::nn::ReLU(), torch::nn::Linear(64, 64), torch::nn::ReLU(), torch::nn::Linear(64, 2));
  torch::optim::Adam adam(model->parameters(), 5e-3);
  auto loader = torch::data::make_data_loader(dataset, torch::data::samplers::RandomSampler(dataset.size().value()), 40);
  for (int64_t epoch = 1; epoch <= 30; ++epoch) {
    double correct = 0;
    double seen = 0;
    for (auto& batch : *loader) {
      adam.zero_grad();
      const auto logits = model->forward(batch.data);
      const auto loss = torch::cross_entropy_loss(logits, batch.target);
      loss.backward();
      adam.step();
      correct += logits.argmax(1).eq(batch.target).sum().item<double>();
      seen += static_cast<double>(batch.target.size(0));
    }
    std::cout << "epoch " << epoch << ": accuracy " << correct / seen << '\n';
  }
}
