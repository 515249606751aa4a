// SPDX-License-Identifier: Apache-2.0
// Random modules made of ordinary and odd parts.
#pragma once
#include <tw/base/concat.hpp>
#include <tw/graph/forward.hpp>

#include "cut_trial.hpp"
#include "random_odd_parts.hpp"

namespace tw::pipeline {

/// Takes [n, length, width] float64 values and [n, length] tokens below `vocabulary`; returns [n, outputs].
class RandomModule : public OddParts {
 public:
  static constexpr int64_t vocabulary = 7;
  static constexpr int64_t outputs = 3;

  /// @param seed of structure and parameters; equal seeds mean equal modules
  explicit RandomModule(uint64_t seed) : OddParts(seed) {
    embedding_ = register_module("embedding", torch::nn::Embedding(vocabulary, width));
    const int64_t steps = 6 + static_cast<int64_t>(numbers_.below(9));
    for (int64_t i = 0; i < steps; ++i) add_step();
    if (numbers_.below(12) == 0) add(&RandomModule::refused);
    head_ = register_module("head", torch::nn::Linear(length * width, outputs));
    to(torch::kDouble);
    freeze_some();
    set_up();
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& tokens) {
    std::vector<torch::Tensor> known{x, embedding_(tokens)};
    for (const Step& step : steps_) known.push_back(step.run(known));
    return head_(with_remembered(known.back()).reshape({x.size(0), length * width}));
  }

  /// Such as "linear add gru".
  std::string describe() const { return joined(steps_, " ", &Step::name); }

 private:
  using Make = Step (RandomModule::*)();

  void add(Make make) {
    steps_.push_back((this->*make)());
    ++known_;
  }

  void add_step() {
    static constexpr Make makes[] = {&RandomModule::dense,
                                     &RandomModule::dense,
                                     &RandomModule::residual,
                                     &RandomModule::gate,
                                     &RandomModule::chunks,
                                     &RandomModule::turned,
                                     &RandomModule::attention,
                                     &RandomModule::heads,
                                     &RandomModule::into_zeros,
                                     &RandomModule::by_index,
                                     &RandomModule::listed,
                                     &RandomModule::gru,
                                     &RandomModule::lstm,
                                     &RandomModule::in_place,
                                     &RandomModule::part_in_place,
                                     &RandomModule::read_and_changed,
                                     &RandomModule::counter,
                                     &RandomModule::running_mean,
                                     &RandomModule::tied,
                                     &RandomModule::batch_norm,
                                     &RandomModule::layer_norm,
                                     &RandomModule::dropout,
                                     &RandomModule::likes,
                                     &RandomModule::convolution,
                                     &RandomModule::flat_rows,
                                     &RandomModule::pooled,
                                     &RandomModule::detached,
                                     &RandomModule::guarded,
                                     &RandomModule::masked,
                                     &RandomModule::strided_view,
                                     &RandomModule::remembered,
                                     &RandomModule::averaged_weight,
                                     &RandomModule::without_gradient,
                                     &RandomModule::constant,
                                     &RandomModule::two_names,
                                     &RandomModule::unsaid_statistics,
                                     &RandomModule::frozen_norm,
                                     &RandomModule::iterated,
                                     &RandomModule::one_row_view,
                                     &RandomModule::force,
                                     &RandomModule::norms_of_now,
                                     &RandomModule::cached,
                                     &RandomModule::nine_dimensions,
                                     &RandomModule::strides,
                                     &RandomModule::no_dropout,
                                     &RandomModule::gumbel};
    add(makes[numbers_.below(static_cast<uint32_t>(std::size(makes)))]);
  }

  torch::nn::Embedding embedding_{nullptr};
  torch::nn::Linear head_{nullptr};
};

/// A module and its batch on the CPU, the same for the same seed.
inline Trainee random_trainee(uint64_t seed) {
  const auto module = std::make_shared<RandomModule>(seed);
  const int64_t rows = 5 + static_cast<int64_t>(seed % 6);
  return {.name = concat("seed ", seed, ": ", module->describe()),
          .module = module,
          .forward = graph::forward_of(*module),
          .inputs = {torch::randn({rows, RandomModule::length, RandomModule::width}, torch::kDouble),
                     torch::randint(RandomModule::vocabulary, {rows, RandomModule::length})},
          .targets = {torch::randn({rows, RandomModule::outputs}, torch::kDouble)},
          .draws = module->draws(),
          .splits_matter = module->splits_matter(),
          .refusal = module->refusal()};
}

}  // namespace tw::pipeline
