// SPDX-License-Identifier: Apache-2.0
// The tensors inside a function's arguments or results.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tw {

/// Whether T is a tensor, or a std::vector, array, tuple, pair or optional that holds tensors.
template <class T>
struct HoldsTensors : std::false_type {};
template <>
struct HoldsTensors<at::Tensor> : std::true_type {};
template <class T, class Allocator>
struct HoldsTensors<std::vector<T, Allocator>> : HoldsTensors<T> {};
template <class T, size_t n>
struct HoldsTensors<std::array<T, n>> : HoldsTensors<T> {};
template <class T>
struct HoldsTensors<std::optional<T>> : HoldsTensors<T> {};
template <class... T>
struct HoldsTensors<std::tuple<T...>> : std::disjunction<HoldsTensors<T>...> {};
template <class A, class B>
struct HoldsTensors<std::pair<A, B>> : std::disjunction<HoldsTensors<A>, HoldsTensors<B>> {};

/// Calls `visit` with each tensor in `value`, undefined ones too, from left to right.
template <class T, class Visit>
void for_each_tensor(T& value, const Visit& visit) {
  using Plain = std::remove_cv_t<T>;
  if constexpr (!HoldsTensors<Plain>::value) {
    return;
  } else if constexpr (std::is_same_v<Plain, at::Tensor>) {
    visit(value);
  } else if constexpr (requires { std::tuple_size<Plain>::value; }) {
    std::apply([&](auto&... each) { (for_each_tensor(each, visit), ...); }, value);
  } else if constexpr (requires { value.has_value(); }) {
    if (value.has_value()) for_each_tensor(*value, visit);
  } else {
    for (auto& each : value) for_each_tensor(each, visit);
  }
}

}  // namespace tw
