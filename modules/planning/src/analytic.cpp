// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/analytic.hpp>

#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/hash.hpp>
#include <tw/base/number_text.hpp>

namespace tw::pipeline {
namespace {

constexpr double element = 4;  // bytes of a float32

/// Appends operators; all sizes are in elements per row.
class Builder {
 public:
  explicit Builder(const Rates& rates, double input_bytes_per_row) : rates_(rates) {
    rates.validate();
    profile_.input_bytes = {0, input_bytes_per_row};
  }

  int parameter(const std::string& name, double elements) {
    profile_.parameters.push_back({name, element * elements});
    return static_cast<int>(profile_.parameters.size()) - 1;
  }
  /// A matrix product with weights: reads them, its input and its output; keeps its input.
  int product(const std::string& name, int from, std::vector<int> parameters, double rows, double inputs, double outputs) {
    double weight_bytes = 0;
    for (const int p : parameters) weight_bytes += profile_.parameters[static_cast<size_t>(p)].bytes;
    const Affine forward{weight_bytes / rates_.bytes_per_second,
                         2 * rows * inputs * outputs / rates_.flops_per_second + element * rows * (inputs + outputs) / rates_.bytes_per_second};
    const int made = add(name, {from}, std::move(parameters), forward, rows * outputs, rows * inputs);
    profile_.operators.back().weights = forward;  // half of the backward pass
    profile_.operators.back().waiting_bytes = {0, element * rows * (inputs + outputs)};
    return made;
  }
  /// Memory-bound: reads and writes `moved` elements per row.
  int elementwise(const std::string& name, std::vector<int> from, std::vector<int> parameters, double moved, double output, double saved) {
    return add(name, std::move(from), std::move(parameters), {0, element * moved / rates_.bytes_per_second}, output, saved);
  }
  /// A product of two activations.
  int batched_product(const std::string& name, std::vector<int> from, double flops, double moved, double output, double saved) {
    return add(name, std::move(from), {}, {0, flops / rates_.flops_per_second + element * moved / rates_.bytes_per_second}, output, saved);
  }
  Profile finish(const std::string& description) {
    profile_.hash = hex_text(content_hash(description));
    return std::move(profile_);
  }

 private:
  int add(const std::string& name, std::vector<int> from, std::vector<int> parameters, const Affine& forward, double output, double saved) {
    Affine workspace{0, element * output};  // cotangents of output and inputs, and gradients of parameters
    for (const int input : from) workspace += input < 0 ? profile_.input_bytes : profile_.operators[static_cast<size_t>(input)].output_bytes;
    for (const int p : parameters) workspace.fixed += profile_.parameters[static_cast<size_t>(p)].bytes;
    profile_.operators.push_back({.name = name,
                                  .inputs = std::move(from),
                                  .parameters = std::move(parameters),
                                  .forward = forward,
                                  .backward = {2 * forward.fixed, 2 * forward.per_row},
                                  .output_bytes = {0, element * output},
                                  .saved_bytes = {0, element * saved},
                                  .workspace_bytes = workspace});
    return static_cast<int>(profile_.operators.size()) - 1;
  }

  Rates rates_;
  Profile profile_;
};

int linear(Builder& builder, const std::string& name, int from, double rows, double inputs, double outputs) {
  const int weight = builder.parameter(name + ".weight", inputs * outputs);
  const int bias = builder.parameter(name + ".bias", outputs);
  return builder.product(name, from, {weight, bias}, rows, inputs, outputs);
}

int layer_norm(Builder& builder, const std::string& name, int from, double rows, double width) {
  const int weight = builder.parameter(name + ".weight", width);
  const int bias = builder.parameter(name + ".bias", width);
  return builder.elementwise(name, {from}, {weight, bias}, 2 * rows * width, rows * width, rows * width);
}

int attention(Builder& builder, const std::string& name, int from, double width, double heads, double sequence) {
  const double tokens = sequence * width;
  const double scores = heads * sequence * sequence;
  const int q = linear(builder, name + ".query", from, sequence, width, width);
  const int k = linear(builder, name + ".key", from, sequence, width, width);
  const int v = linear(builder, name + ".value", from, sequence, width, width);
  const double flops = 2 * sequence * tokens;
  const int weights = builder.batched_product(name + ".scores", {q, k}, flops, 2 * tokens + scores, scores, 2 * tokens);
  const int softmax = builder.elementwise(name + ".softmax", {weights}, {}, 2 * scores, scores, scores);
  const int mixed = builder.batched_product(name + ".mix", {softmax, v}, flops, 2 * tokens + scores, tokens, tokens);
  return linear(builder, name + ".output", mixed, sequence, width, width);
}

}  // namespace

void visit(Rates& rates, OptionVisitor& visitor) {
  visitor.field("flops_per_second", rates.flops_per_second, {.least = 0, .excludes_least = true},
                {.meaning = "floating-point operations per second of a device"});
  visitor.field("bytes_per_second", rates.bytes_per_second, {.least = 0, .excludes_least = true}, {.meaning = "bandwidth of a device's memory"});
}

void Rates::validate() const { expect_none(out_of_bounds(*this)); }

Profile mlp_profile(int64_t hidden, int64_t layers, int64_t input, int64_t outputs, const Rates& rates) {
  TW_EXPECTS(hidden >= 1 && layers >= 1 && input >= 1 && outputs >= 1, "sizes must be at least 1, got ", hidden, ", ", layers, ", ", input, ", ",
             outputs);
  Builder builder(rates, element * static_cast<double>(input));
  int last = -1;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto inputs = static_cast<double>(layer == 0 ? input : hidden);
    const auto width = static_cast<double>(layer + 1 == layers ? outputs : hidden);
    last = linear(builder, concat("linear", layer), last, 1, inputs, width);
    // The next layer keeps the output of this ReLU.
    if (layer + 1 < layers) last = builder.elementwise(concat("relu", layer), {last}, {}, 2 * width, width, 0);
  }
  return builder.finish(concat("mlp ", hidden, ' ', layers, ' ', input, ' ', outputs));
}

Profile transformer_profile(int64_t blocks, int64_t width, int64_t heads, int64_t sequence, int64_t vocabulary, const Rates& rates) {
  TW_EXPECTS(blocks >= 1 && width >= 1 && heads >= 1 && sequence >= 1 && vocabulary >= 1, "sizes must be at least 1, got ", blocks, ", ", width, ", ",
             heads, ", ", sequence, ", ", vocabulary);
  TW_EXPECTS(width % heads == 0, "the width must be a multiple of the ", heads, " heads, got ", width);
  const auto w = static_cast<double>(width);
  const auto s = static_cast<double>(sequence);
  const auto v = static_cast<double>(vocabulary);
  const double tokens = s * w;
  Builder builder(rates, 8 * s);  // token indices, int64
  const int table = builder.parameter("embedding.weight", v * w);
  const int places = builder.parameter("positions.weight", tokens);
  int x = builder.elementwise("embedding", {-1}, {table}, 2 * tokens, tokens, 0);
  x = builder.elementwise("positions", {x}, {places}, 2 * tokens, tokens, 0);
  for (int64_t block = 0; block < blocks; ++block) {
    const std::string name = concat("block", block);
    const int normed = layer_norm(builder, name + ".norm1", x, s, w);
    const int attended = attention(builder, name + ".attention", normed, w, static_cast<double>(heads), s);
    const int residual = builder.elementwise(name + ".add1", {x, attended}, {}, 3 * tokens, tokens, 0);
    const int normed_again = layer_norm(builder, name + ".norm2", residual, s, w);
    const int wide = linear(builder, name + ".mlp1", normed_again, s, w, 4 * w);
    const int active = builder.elementwise(name + ".gelu", {wide}, {}, 8 * tokens, 4 * tokens, 4 * tokens);
    const int narrow = linear(builder, name + ".mlp2", active, s, 4 * w, w);
    x = builder.elementwise(name + ".add2", {residual, narrow}, {}, 3 * tokens, tokens, 0);
  }
  x = layer_norm(builder, "norm", x, s, w);
  builder.product("head", x, {table}, s, w, v);
  return builder.finish(concat("transformer ", blocks, ' ', width, ' ', heads, ' ', sequence, ' ', vocabulary));
}

}  // namespace tw::pipeline
