// SPDX-License-Identifier: Apache-2.0
// The forward pass of any module in the form that capture() needs: tensors in, tensors out.
#pragma once
#include <map>
#include <string>
#include <tuple>
#include <tw/base/contract.hpp>
#include <tw/graph/capture.hpp>
#include <type_traits>
#include <vector>

namespace tw::graph {
namespace detail {

inline void flatten(const at::Tensor& tensor, std::vector<at::Tensor>& into) { into.push_back(tensor); }

/// Appends all tensors in lists, dictionaries (also LibTorch's types), tuples and pairs to `into`, element by element.
template <class Outputs>
void flatten(const Outputs& outputs, std::vector<at::Tensor>& into) {
  if constexpr (requires { outputs.begin()->value(); }) {
    for (const auto& each : outputs) flatten(each.value(), into);
  } else if constexpr (requires { outputs.begin()->second; }) {
    for (const auto& each : outputs) flatten(each.second, into);
  } else if constexpr (requires { outputs.begin(); }) {
    for (const auto& each : outputs) flatten(each, into);
  } else {
    std::apply([&](const auto&... each) { (flatten(each, into), ...); }, outputs);
  }
}

template <class Module>
std::vector<at::Tensor> run(Module& module, const std::vector<at::Tensor>& in) {
  std::vector<at::Tensor> out;
  if constexpr (requires { module.forward(in[0]); }) {
    if (in.size() == 1) return flatten(module.forward(in[0]), out), out;
  }
  if constexpr (requires { module.forward(in[0], in[1]); }) {
    if (in.size() == 2) return flatten(module.forward(in[0], in[1]), out), out;
  }
  if constexpr (requires { module.forward(in[0], in[1], in[2]); }) {
    if (in.size() == 3) return flatten(module.forward(in[0], in[1], in[2]), out), out;
  }
  if constexpr (requires { module.forward(in[0], in[1], in[2], in[3]); }) {
    if (in.size() == 4) return flatten(module.forward(in[0], in[1], in[2], in[3]), out), out;
  }
  if constexpr (requires { module.forward(in); }) {  // last, since a Sequential claims to accept any arguments
    flatten(module.forward(in), out);
    return out;
  }
  TW_EXPECTS(!out.empty(), "the module's forward() does not accept ", in.size(),
             " inputs; expected one that takes this many tensors (one to four), or a list of tensors");
  return out;
}

}  // namespace detail

/// Returns the forward pass of a module whose forward() takes one to four tensors, or a list of them. forward() may return a tensor, or a (nested)
/// tuple, list or dictionary of tensors. The forward pass returns these tensors in order, those of a std::map in the order of its keys.
template <class Module>
Forward forward_of(Module& module) {
  return [&module](const std::vector<at::Tensor>& inputs) { return detail::run(module, inputs); };
}

}  // namespace tw::graph
