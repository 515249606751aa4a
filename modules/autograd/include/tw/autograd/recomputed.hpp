// SPDX-License-Identifier: Apache-2.0
// Trades time for memory: the backward pass recomputes a function's intermediate results.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <tw/autograd/tensors_within.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace tw {
namespace detail {

struct Recomputation {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> buffers;  ///< restored after the second run
  std::function<std::vector<at::Tensor>()> run;
};

/// Returns the outputs of `first`, attached to an autograd node whose backward pass calls `again.run`.
std::vector<at::Tensor> recompute_later(Recomputation again, const std::function<std::vector<at::Tensor>()>& first);

template <class T>
std::vector<at::Tensor> tensors_of(const T& value) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

/// The buffers of a module passed as a holder, a pointer or std::ref; empty for anything else.
template <class T>
std::vector<at::Tensor> buffers_of(const T& value) {
  if constexpr (requires { value->buffers(); }) {
    return value->buffers();
  } else if constexpr (requires { value.get().buffers(); }) {
    return value.get().buffers();
  } else {
    return {};
  }
}

}  // namespace detail

/// Returns `function(inputs...)`. Uses less memory and more time than a plain call: autograd saves only the inputs, and the backward pass calls the
/// function again and differentiates that second run. A chain of n such calls (segments) holds the inputs of all segments, and the intermediate
/// results of one segment at a time. Gradients equal those of plain calls bit for bit, with one exception: if several segments use a tensor, its
/// gradient is first summed within each segment.
///
///     auto y = tw::recomputed([&](const at::Tensor& h) { return block->forward(h); }, x);
///
/// Works with `torch::autograd::grad` (inside the function, too), `retain_graph` (each backward pass runs the function again), `create_graph`, hooks,
/// and `recomputed` within `recomputed`. Captured tensors get the same gradients as without recomputation, whether or not an input requires one. With
/// grad mode off, it is a plain call. It is not collective, unless the function is: then all ranks must run their backward passes in the same order.
///
/// The second run draws the same random numbers as the first from the default generators (of the CPU, the current device and the inputs' devices).
/// Afterwards the generators have the states that they had before it. The second run also has the first one's autocast settings. Autocast's cache of
/// weights is cleared before and after each run.
///
/// @param function called with the inputs as const lvalues. A backward pass calls it again, on the thread that runs the pass. It must return the same
/// result each time. Objects that it refers to must outlive the backward pass, and captured tensors must not change before that pass. It returns a
/// tensor, or a std::vector, array, tuple, pair or optional of such values; tensors inside other types keep their graphs as usual.
/// @param inputs copied (tensors without their data), and kept until the backward pass ends. Tensors in them must not change until then; they may be
/// undefined or require no gradient. A module passed as an input or as the function (by holder, pointer or std::ref) keeps its buffers as the first
/// run left them. The second run updates the buffers of other modules again, such as running statistics of batch norms.
/// @throws ContractError during this call if the function changes an input in place. A backward pass throws it if an input or a parameter has changed
/// since the first run, or if an earlier backward pass freed what this one needs. It also throws if the outputs of the two runs differ in number,
/// shape, dtype, device, whether they require a gradient, or the tensors that they depend on. The last is always so on accelerators if the function
/// itself differentiates with create_graph. Exceptions of the function pass through.
/// Ref: Chen et al. 2016, "Training deep nets with sublinear memory cost", arXiv 1604.06174.
template <class Function, class... Inputs>
auto recomputed(Function&& function, Inputs&&... inputs) {
  using Result = std::decay_t<std::invoke_result_t<std::decay_t<Function>&, const std::decay_t<Inputs>&...>>;
  static_assert(HoldsTensors<Result>::value, "recomputed() is for functions that return tensors");
  static_assert(!(std::is_convertible_v<std::decay_t<Inputs>*, at::TensorList*> || ...), "a TensorList does not own its tensors: pass a std::vector");
  detail::Recomputation again;
  const auto add = [](const auto& value, std::vector<at::Tensor>& to, auto tensors) {
    for (at::Tensor& each : tensors(value)) to.push_back(std::move(each));
  };
  (add(inputs, again.inputs, [](const auto& value) { return detail::tensors_of(value); }), ...);
  (add(inputs, again.buffers, [](const auto& value) { return detail::buffers_of(value); }), ...);
  add(function, again.buffers, [](const auto& value) { return detail::buffers_of(value); });
  auto call = [function = std::decay_t<Function>(std::forward<Function>(function)),
               stored = std::tuple<std::decay_t<Inputs>...>(std::forward<Inputs>(inputs)...)]() mutable -> Result {
    return std::apply(function, std::as_const(stored));
  };
  const auto shared = std::make_shared<decltype(call)>(std::move(call));  // for functions that cannot be copied
  again.run = [shared] { return detail::tensors_of((*shared)()); };
  std::optional<Result> result;
  std::vector<at::Tensor> outputs = detail::recompute_later(std::move(again), [&] {
    std::vector<at::Tensor> tensors;
    for_each_tensor(result.emplace((*shared)()), [&](at::Tensor& tensor) { tensors.push_back(std::exchange(tensor, at::Tensor())); });
    return tensors;
  });
  auto next = outputs.begin();
  for_each_tensor(*result, [&next](at::Tensor& tensor) { tensor = std::move(*next++); });
  return *std::move(result);
}

}  // namespace tw
