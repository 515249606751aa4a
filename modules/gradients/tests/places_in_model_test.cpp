// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/gradients/places_in_model.hpp>

namespace places_in_model_test {

// As an optimizer leaves them that moves a model's parameters into one buffer.
TEST(PlacesInModel, OfParametersInOneStorageDiffer) {
  torch::nn::Sequential net(torch::nn::Linear(3, 3), torch::nn::Linear(3, 3), torch::nn::Linear(3, 3));
  const auto parameters = net->parameters();
  const at::Tensor buffer = torch::zeros({36});
  int64_t offset = 0;
  for (const at::Tensor& each : parameters) {
    at::Tensor(each).set_data(buffer.narrow(0, offset, each.numel()).view(each.sizes()));
    offset += each.numel();
  }
  const auto model = tw::whole_model(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
  const tw::PlacesInModel places(*model);
  for (const auto& each : net->named_parameters()) EXPECT_EQ(places.at(each.key()).name, each.key());
}

}  // namespace places_in_model_test
