// SPDX-License-Identifier: Apache-2.0
#include "stand_ins.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <map>
#include <tuple>
#include <tw/autograd/generator.hpp>
#include <vector>

namespace tw::pipeline {
namespace {

/// Random numbers like `tensor`. A matrix [out, in] is scaled so that products with it keep the magnitude of the input.
at::Tensor random_like(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const auto options = at::device(at::kCPU).dtype(tensor.scalar_type());
  if (!tensor.is_floating_point()) return at::zeros(tensor.sizes(), options);
  const double scale = tensor.dim() > 1 ? std::sqrt(static_cast<double>(tensor.size(0)) / static_cast<double>(tensor.numel())) : 1;
  return at::randn(tensor.sizes(), options).mul_(scale).set_requires_grad(tensor.requires_grad());
}

class StandIns {
 public:
  at::Tensor of(const at::Tensor& tensor) {
    if (!tensor.is_meta()) return tensor;
    auto [known, is_new] = made_.try_emplace(tensor.unsafeGetTensorImpl());
    if (!is_new) return known->second;
    Alike& alike = alike_[{tensor.sizes().vec(), tensor.scalar_type(), tensor.requires_grad()}];
    if (alike.tensors.size() < 2) alike.tensors.push_back(random_like(tensor));
    known->second = alike.tensors[alike.used++ % 2];
    return known->second;
  }

 private:
  struct Alike {
    std::vector<at::Tensor> tensors;
    size_t used = 0;
  };
  std::map<std::tuple<std::vector<int64_t>, c10::ScalarType, bool>, Alike> alike_;
  std::map<const c10::TensorImpl*, at::Tensor> made_;
};

}  // namespace

std::map<std::string, at::Tensor> measurable_tensors(const torch::nn::Module& module) {
  GeneratorGuard generator;
  generator.seed(0, 0);
  StandIns stand_ins;
  std::map<std::string, at::Tensor> all;
  for (const auto& tensors : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& each : tensors) all[each.key()] = stand_ins.of(each.value());
  }
  return all;
}

}  // namespace tw::pipeline
