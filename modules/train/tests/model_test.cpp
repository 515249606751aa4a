// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <fstream>
#include <tw/base/error.hpp>
#include <tw/train/model.hpp>
#include <tw/train/objective.hpp>

#include "message_of.hpp"

namespace model_test {

std::filesystem::path file(const std::string& name) { return std::filesystem::path(testing::TempDir()) / ("tw_model_" + name); }

TEST(Model, TakesTiedParametersOnce) {
  struct Tied : torch::nn::Module {
    Tied() {
      first = register_module("first", torch::nn::Linear(3, 3));
      second = register_module("second", torch::nn::Linear(3, 3));
      second->weight = second->register_parameter("again", first->weight);
      statistics = register_buffer("statistics", torch::zeros({2}));
    }
    torch::nn::Linear first{nullptr};
    torch::nn::Linear second{nullptr};
    torch::Tensor statistics;
  };
  const auto module = std::make_shared<Tied>();
  module->first->bias.requires_grad_(false);
  const auto model = tw::train::model_of(module, [](const at::Tensor& x) { return x; });
  EXPECT_EQ(model.parameters.size(), 4U);          // first.weight, first.bias, second.weight (never used), second.bias
  EXPECT_EQ(model.trained_elements(), 9 + 9 + 3);  // first.bias is frozen
  EXPECT_EQ(model.buffers.at(0).name, "statistics");
  EXPECT_EQ(model.aliases, (std::map<std::string, std::string>{{"second.again", "first.weight"}}));
}

TEST(Model, ReadsTorchScriptAndTrainsIt) {
  torch::jit::Module script("net");
  script.register_parameter("weight", torch::ones({2, 3}).requires_grad_(), /*is_buffer=*/false);
  script.register_parameter("scale", torch::full({1}, 2.0), /*is_buffer=*/true);
  script.define("def forward(self, x):\n  return torch.matmul(x, self.weight.t()) * self.scale\n");
  script.save(file("net.pt").string());

  const auto model = tw::train::load_torchscript(file("net.pt"));
  ASSERT_EQ(model.parameters.size(), 1U);
  EXPECT_EQ(model.parameters[0].name, "weight");
  ASSERT_EQ(model.buffers.size(), 1U);
  EXPECT_EQ(model.buffers[0].name, "scale");
  const auto outputs = model.forward(torch::ones({4, 3}));
  EXPECT_TRUE(outputs.equal(torch::full({4, 2}, 6.0)));
  outputs.sum().backward();
  EXPECT_TRUE(model.parameters[0].tensor.grad().equal(torch::full({2, 3}, 8.0)));
  model.set_training(false);
  EXPECT_TRUE(model.aliases.empty());
}

TEST(Model, SubmodulesGetTheModesBackThatTheyHad) {
  torch::nn::Sequential net(torch::nn::Linear(3, 3), torch::nn::BatchNorm1d(3), torch::nn::Dropout(0.5));
  const auto norm = net->ptr(1);
  norm->eval();
  const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
  const auto modes = [&] {
    std::string text;
    for (const auto& each : net->modules()) text += each->is_training() ? 't' : 'e';
    return text;
  };
  const std::string found = modes();
  model.set_training(true);
  EXPECT_EQ(modes(), found) << "what eval() froze stays frozen";
  for (int i = 0; i < 2; ++i) model.set_training(false);
  EXPECT_EQ(modes(), std::string(found.size(), 'e'));
  model.set_training(true);
  EXPECT_EQ(modes(), found);
  net->eval();
  model.set_training(false);
  model.set_training(true);
  EXPECT_FALSE(net->is_training());
  model.set_training(true);
  EXPECT_EQ(modes(), std::string(found.size(), 't')) << "a model that was evaluated as a whole trains as a whole";
}

// Seen in what dropout does to ones.
TEST(Model, PartsOfTorchScriptGetTheModesBackThatTheyHad) {
  torch::jit::Module part("part");
  part.register_attribute("training", c10::BoolType::get(), true);
  part.define("def forward(self, x):\n  return torch.dropout(x, 1.0, self.training)\n");
  torch::jit::Module script("net");
  script.register_attribute("training", c10::BoolType::get(), true);
  script.register_module("frozen", part.clone());
  script.register_module("trained", part);
  script.define("def forward(self, x):\n  return torch.cat([self.frozen.forward(x), self.trained.forward(x)])\n");
  script.attr("frozen").toModule().eval();
  script.save(file("modes.pt").string());
  const auto model = tw::train::load_torchscript(file("modes.pt"));
  const auto passed = [&] { return model.forward(torch::ones({1})); };
  model.set_training(true);
  EXPECT_TRUE(passed().equal(torch::tensor({1.0, 0.0}))) << passed();
  model.set_training(false);
  EXPECT_TRUE(passed().equal(torch::ones({2})));
  model.set_training(true);
  EXPECT_TRUE(passed().equal(torch::tensor({1.0, 0.0})));
}

/// Shapes that match only by broadcasting are reported with the remedy, also by metrics.
TEST(Objective, TakesNoShapesThatOnlyBroadcastingMakesFit) {
  const auto refused = [](const tw::train::Objective& objective, const at::Tensor& outputs, const at::Tensor& targets, const std::string& shapes) {
    for (const auto& call : std::vector<std::function<void()>>{[&] { (void)objective.loss(outputs, targets); },
                                                               [&] { (void)objective.metrics.at(0).sum(outputs, targets); }}) {
      EXPECT_THROW(call(), tw::ContractError);
      EXPECT_NE(tw::testing::message_of(call).find("got outputs " + shapes + ". "), std::string::npos) << tw::testing::message_of(call);
    }
  };
  const tw::train::Objective regression = tw::train::regression();
  refused(regression, torch::ones({4, 1}), torch::ones({4}), "[4, 1] and targets [4]");
  refused(regression, torch::ones({4}), torch::ones({4, 1}), "[4] and targets [4, 1]");
  refused(regression, torch::ones({4, 3}), torch::ones({4, 1}), "[4, 3] and targets [4, 1]");
  EXPECT_EQ(regression.loss(torch::ones({4, 1}), torch::zeros({4, 1})).item<double>(), 1);
  const tw::train::Objective classification = tw::train::classification();
  const auto classes = [](at::IntArrayRef shape) { return torch::zeros(shape, torch::kLong); };
  refused(classification, torch::ones({4, 3}), classes({4, 1}), "[4, 3] and targets [4, 1]");
  refused(classification, torch::ones({4, 3}), torch::ones({4, 3}), "[4, 3] and targets [4, 3]");
  refused(classification, torch::ones({4}), torch::ones({4}), "[4] and targets [4]");
  EXPECT_EQ(classification.metrics.at(0).sum(torch::ones({4, 3, 2}), classes({4, 2})), 8) << "a class for each place";
  EXPECT_EQ(classification.metrics.at(0).weight(classes({4, 2})), 8);
}

TEST(Model, KeepsTheNamesOfTiedTensorsOfTorchScript) {
  torch::jit::Module script("net");
  const at::Tensor shared = torch::ones({2, 3}).requires_grad_();
  script.register_parameter("weight", shared, /*is_buffer=*/false);
  script.register_parameter("tied", shared, /*is_buffer=*/false);
  script.define("def forward(self, x):\n  return torch.matmul(x, self.weight.t())\n");
  script.save(file("tied.pt").string());
  const auto model = tw::train::load_torchscript(file("tied.pt"));
  ASSERT_EQ(model.parameters.size(), 1U);
  EXPECT_EQ(model.aliases, (std::map<std::string, std::string>{{"tied", "weight"}}));
}

TEST(Model, NamesAFileThatIsNoTorchScript) {
  std::ofstream(file("text.pt")) << "hello";
  torch::jit::Module script("net");
  script.save(file("empty.pt").string());
  c10::Dict<std::string, at::Tensor> state_dict;
  state_dict.insert("weight", torch::ones({2}));
  const std::vector<char> pickled = torch::jit::pickle_save(state_dict);  // as torch.save() writes it
  std::ofstream(file("state_dict.pt"), std::ios::binary).write(pickled.data(), static_cast<std::streamsize>(pickled.size()));
  const std::map<std::string, std::string> files{{"text.pt", "is not a TorchScript file"},
                                                 {"absent.pt", "does not exist"},
                                                 {"empty.pt", "has no method forward: it holds only tensors"},
                                                 {"state_dict.pt", "holds tensors or a pickled module"}};
  for (const auto& [name, problem] : files) {
    try {
      (void)tw::train::load_torchscript(file(name));
      ADD_FAILURE() << "no exception";
    } catch (const tw::FileError& error) {
      EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("expected a TorchScript module, as torch.jit.script(model).save()"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace model_test
