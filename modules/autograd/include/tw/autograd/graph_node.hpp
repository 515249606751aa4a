// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace tw {

/// Makes a node of autograd's graph, in the pointer type of this LibTorch version. @param arguments of the constructor of `T`
template <class T, class Pointer = decltype(torch::autograd::Edge::function), class... Arguments>
Pointer make_graph_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<T>(std::forward<Arguments>(arguments)...);
  } else {
    return c10::make_intrusive<T>(std::forward<Arguments>(arguments)...);
  }
}

}  // namespace tw
