// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <map>
#include <string>

namespace tw::pipeline {

/// The tensors of `module` by name, also under their further names, for measurements. Those without memory are replaced: tensors of equal shape by
/// two in turns, filled with small random numbers, since operators take the same time for any values. So a model of equal blocks takes the memory of
/// two.
std::map<std::string, at::Tensor> measurable_tensors(const torch::nn::Module& module);

}  // namespace tw::pipeline
