// SPDX-License-Identifier: Apache-2.0
#include "measured_model.hpp"

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/utils.h>

#include <map>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/text_stream.hpp>
#include <tw/comm/threads.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <tw/graph/capture.hpp>
#include <tw/pipeline/measured_profile.hpp>

#include "model_kinds.hpp"

namespace tw::tool {
namespace {

/// The sizes in a text such as "1x28x28".
std::vector<int64_t> sizes_of(const std::string& text) {
  std::vector<int64_t> sizes;
  if (text.empty()) return sizes;
  TextReader in(text + 'x');  // so that the missing size in "1x" is noticed
  for (std::string word; std::getline(in, word, 'x');) {
    int64_t size = 0;
    TextReader number(word);
    if (!(number >> size) || !number.eof() || size < 1) throw Error(concat("--input: must be positive sizes such as 1x28x28, got '", text, "'"));
    sizes.push_back(size);
  }
  return sizes;
}

/// A model, and a batch for it.
struct Subject {
  Callable model;
  at::Tensor example;
};

at::Tensor example_of(std::vector<int64_t> shape, int64_t rows, at::ScalarType dtype) {
  shape.insert(shape.begin(), rows);
  return dtype == at::kLong ? at::zeros(shape, dtype) : at::randn(shape, dtype);
}

Subject of_file(const MeasuredModelOptions& options) {
  const std::string& file = options.model.name;
  if (options.input.empty()) throw Error(concat("--input: ", file, " does not define its input; pass the shape of one sample, such as 1x28x28"));
  const std::map<std::string, at::ScalarType> dtypes{{"float32", at::kFloat}, {"float64", at::kDouble}, {"int64", at::kLong}};
  Subject subject{load_script(file), example_of(sizes_of(options.input), options.rows, dtypes.at(options.input_dtype))};
  if (!subject.model.module->is_training()) subject.model.module->train();
  return subject;
}

Subject of_kind(const MeasuredModelOptions& options, const ModelKind& kind) {
  UsualInput input = kind.usual_input(options.model);
  if (!options.input.empty()) {
    if (input.dtype == at::kLong) throw Error(concat("--input: cannot be set for ", kind.name, ", which takes tokens; pass --sequence instead"));
    input.row = sizes_of(options.input);
  }
  return {kind.make(options.model, input.row, input.outputs), example_of(input.row, options.rows, input.dtype)};
}

/// Runs the model once. LibTorch's errors name operators; this error names the user's options.
void expect_takes_example(const MeasuredModelOptions& options, const Subject& subject) {
  const auto refuse = [&](const char* why) {
    throw Error(concat(options.model.name, " does not take inputs of shape ", subject.example.sizes().slice(1), ": ", why));
  };
  const torch::NoGradGuard no_grad;
  try {
    (void)subject.model.forward(subject.example);
  } catch (const c10::Error& error) {
    refuse(error.what_without_backtrace());
  } catch (const std::exception& error) {  // from the TorchScript interpreter
    refuse(error.what());
  }
}

}  // namespace

MeasuredModel measured_model(const Communicator& comm, const MeasuredModelOptions& options) {
  set_threads_per_rank(find_topology(comm));
  torch::manual_seed(0);
  const ModelKind* kind = find_model_kind(options.model.name);
  const Subject subject = kind == nullptr ? of_file(options) : of_kind(options, *kind);
  expect_takes_example(options, subject);
  const auto forward = [&](const std::vector<at::Tensor>& inputs) { return std::vector<at::Tensor>{subject.model.forward(inputs[0])}; };
  const ModelTensors model = model_tensors(*subject.model.module);
  std::map<std::string, at::Tensor> tensors;
  for (const NamedTensor& each : model.all_tensors()) tensors[each.name] = each.tensor;
  MeasuredModel made;
  made.graph = graph::capture(forward, model.parameters, model.buffers, {subject.example});
  made.profile = pipeline::measured_profile(comm, made.graph, [&](const std::string& name) { return tensors.at(name); }, {subject.example},
                                            {.cache = options.cache});
  return made;
}

}  // namespace tw::tool
