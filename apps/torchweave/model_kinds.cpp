// SPDX-License-Identifier: Apache-2.0
#include "model_kinds.hpp"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/graph/torchscript.hpp>
#include <tw/models/conv_net.hpp>
#include <tw/models/gpt.hpp>
#include <tw/models/lenet.hpp>
#include <tw/models/mlp.hpp>
#include <tw/models/resnet.hpp>

namespace tw::tool {
namespace {

/// Converts LibTorch's holders, such as models::LeNet.
template <class Holder>
Callable callable(Holder holder) {
  return {holder.ptr(), [holder](const at::Tensor& inputs) mutable { return holder->forward(inputs); }};
}

UsualInput mnist_image(const ModelOptions& /*options*/) { return {.row = {1, 28, 28}}; }

Callable make_lenet(const ModelOptions& /*options*/, at::IntArrayRef row, int64_t outputs) {
  if (row.size() != 3 || row[1] != 28 || row[2] != 28) {
    throw Error(concat("model lenet takes images of 28 x 28, but these are ", row.size() == 3 ? concat(row[1], " x ", row[2]) : concat(row),
                       "; use resnet or mlp"));
  }
  return callable(models::LeNet(outputs));
}

Callable make_mlp(const ModelOptions& options, at::IntArrayRef row, int64_t outputs) {
  std::vector<int64_t> widths{c10::multiply_integers(row)};
  widths.insert(widths.end(), static_cast<size_t>(options.hidden_layers), options.width);
  widths.push_back(outputs);
  return callable(models::Mlp(widths));
}

UsualInput mlp_row(const ModelOptions& options) { return {.row = {options.width}, .outputs = options.width}; }

Callable make_resnet(const ModelOptions& options, at::IntArrayRef /*row*/, int64_t outputs) {
  return callable(models::ResNet(options.blocks, outputs));
}

Callable make_conv_net(const ModelOptions& options, at::IntArrayRef row, int64_t outputs) {
  using models::Activation;
  const Activation activation = options.activation == "sigmoid" ? Activation::sigmoid
                                : options.activation == "tanh"  ? Activation::tanh
                                                                : Activation::relu;
  return callable(models::ConvNet(models::ConvNetOptions{
      .layers = options.conv_layers, .channels = options.channels, .activation = activation, .height = row[1], .width = row[2], .classes = outputs}));
}

UsualInput words(const ModelOptions& options) { return {.row = {options.sequence}, .outputs = options.vocabulary, .dtype = at::kLong}; }

Callable make_gpt(const ModelOptions& options, at::IntArrayRef row, int64_t outputs) {
  return callable(models::Gpt(
      models::GptOptions{.vocabulary = outputs, .context = row.front(), .width = options.width, .heads = options.heads, .blocks = options.blocks}));
}

}  // namespace

const std::vector<ModelKind>& model_kinds() {
  static const std::vector<ModelKind> kinds{
      {.name = "lenet", .usual_input = mnist_image, .make = make_lenet},
      {.name = "mlp",
       .keys = {"width", "hidden_layers"},
       .takes_images = false,
       .has_analytic_profile = true,
       .usual_input = mlp_row,
       .make = make_mlp},
      {.name = "resnet", .keys = {"blocks"}, .usual_input = mnist_image, .make = make_resnet},
      {.name = "convnet", .keys = {"channels", "conv_layers", "activation"}, .usual_input = mnist_image, .make = make_conv_net},
      {.name = "residual", .keys = {"layers", "channels"}, .supports_stages = false, .has_layers_in_parallel = true, .is_measured = false},
      {.name = "gru",
       .keys = {"width", "stacked", "bidirectional", "longest_memory", "step_inputs"},
       .takes_images = false,
       .supports_stages = false,
       .has_layers_in_parallel = true,
       .is_measured = false},
      {.name = "lstm",
       .keys = {"width", "stacked", "bidirectional", "longest_memory", "step_inputs"},
       .takes_images = false,
       .supports_stages = false,
       .has_layers_in_parallel = true,
       .is_measured = false},
      {.name = "torchscript", .keys = {"path"}, .takes_images = false, .is_measured = false},  // `plan` recognizes it by its file name
      {.name = "gpt",
       .keys = {"blocks", "width", "heads", "sequence", "vocabulary"},
       .is_trained = false,
       .takes_images = false,
       .usual_input = words,
       .make = make_gpt},
      {.name = "transformer",
       .keys = {"blocks", "width", "heads", "sequence", "vocabulary"},
       .is_trained = false,
       .takes_images = false,
       .is_measured = false,
       .has_analytic_profile = true},
  };
  return kinds;
}

const ModelKind* find_model_kind(const std::string& name) {
  const auto found = std::ranges::find(model_kinds(), name, &ModelKind::name);
  return found == model_kinds().end() ? nullptr : &*found;
}

std::vector<std::string> models_that(bool ModelKind::* property) {
  std::vector<std::string> names;
  for (const ModelKind& kind : model_kinds()) {
    if (kind.*property) names.push_back(kind.name);
  }
  return names;
}

bool is_torchscript_file(const std::string& model) { return model.ends_with(".pt"); }

Callable load_script(const std::filesystem::path& path) {
  const auto script = graph::load_torchscript(path);
  return {script, [script](const at::Tensor& inputs) { return script->forward_one(inputs); }};
}

bool can_be_measured(const std::string& model) {
  const ModelKind* kind = find_model_kind(model);
  return kind != nullptr ? kind->is_measured : is_torchscript_file(model);
}

}  // namespace tw::tool
