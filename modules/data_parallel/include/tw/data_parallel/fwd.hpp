// SPDX-License-Identifier: Apache-2.0
// Forward declarations of LibTorch's types, whose headers take seconds to compile.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace torch {
template <typename Key, typename Value>
class OrderedDict;
namespace nn {
class Module;
}
namespace optim {
class Optimizer;
}
}  // namespace torch

namespace tw {

/// What `module.named_parameters()` returns.
using NamedParameters = torch::OrderedDict<std::string, at::Tensor>;

}  // namespace tw
