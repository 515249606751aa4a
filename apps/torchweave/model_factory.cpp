// SPDX-License-Identifier: Apache-2.0
#include "model_factory.hpp"

#include <c10/util/accumulate.h>

#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/models/conv_net.hpp>
#include <tw/models/lenet.hpp>
#include <tw/models/mlp.hpp>
#include <tw/models/resnet.hpp>

namespace tw::tool {
namespace {

Callable make_mlp(const ModelOptions& options, int64_t inputs, int64_t outputs) {
  std::vector<int64_t> widths{inputs};
  widths.insert(widths.end(), static_cast<size_t>(options.hidden_layers), options.width);
  widths.push_back(outputs);
  return callable(models::Mlp(widths));
}

Callable make_conv_net(const ModelOptions& options, at::IntArrayRef sample, int64_t outputs) {
  using models::Activation;
  const Activation activation = options.activation == "sigmoid" ? Activation::sigmoid
                                : options.activation == "tanh"  ? Activation::tanh
                                                                : Activation::relu;
  return callable(models::ConvNet(models::ConvNetOptions{.layers = options.conv_layers,
                                                         .channels = options.channels,
                                                         .activation = activation,
                                                         .height = sample[1],
                                                         .width = sample[2],
                                                         .classes = outputs}));
}

}  // namespace

Callable make_model(const ModelOptions& options, at::IntArrayRef sample, int64_t outputs) {
  if (options.name == "resnet") return callable(models::ResNet(options.blocks, outputs));
  if (options.name == "mlp") return make_mlp(options, c10::multiply_integers(sample), outputs);
  if (options.name == "convnet") return make_conv_net(options, sample, outputs);
  if (sample.size() != 3 || sample[1] != 28 || sample[2] != 28) {
    throw Error(concat("model lenet takes images of 28 x 28, but these are ",
                       sample.size() == 3 ? concat(sample[1], " x ", sample[2]) : concat(sample), "; use resnet or mlp"));
  }
  return callable(models::LeNet(outputs));
}

}  // namespace tw::tool
