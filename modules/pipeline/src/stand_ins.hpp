// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <map>
#include <string>

namespace tw::pipeline {

/// The tensors of `module` for measurements, under each of their names. Tensors without memory are replaced by tensors with small random numbers,
/// since operators take the same time for any values. All tensors of equal shape share two replacements, so a model of equal blocks needs memory for
/// two.
std::map<std::string, at::Tensor> measurable_tensors(const torch::nn::Module& module);

}  // namespace tw::pipeline
