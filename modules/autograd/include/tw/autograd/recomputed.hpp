// SPDX-License-Identifier: Apache-2.0
// Memory for time: a function whose intermediate results the backward pass computes again.
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
  std::vector<at::Tensor> buffers;  ///< to be left by the second run as they were
  std::function<std::vector<at::Tensor>()> run;
};

/// Returns the outputs of `first`, which keeps none of them, with an autograd node whose backward pass calls `again.run`.
std::vector<at::Tensor> recompute_later(Recomputation again, const std::function<std::vector<at::Tensor>()>& first);

template <class T>
std::vector<at::Tensor> tensors_of(const T& value) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

/// Of a module, given by a holder, a pointer or std::ref; of anything else none.
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

/// What `function(inputs...)` returns, for less memory and more time: of what autograd would save of it nothing stays but the inputs. The backward
/// pass calls the function once more and goes through that second run. A chain of n segments holds their n inputs, and the intermediate results of
/// one segment at a time. Gradients are those of the plain call: to the bit, but where a tensor is used in several segments, whose sums are then
/// added.
///
///     auto y = tw::recomputed([&](const at::Tensor& h) { return block->forward(h); }, x);
///
/// Works with `torch::autograd::grad`, also inside the function, `retain_graph` (each backward pass runs the function again), `create_graph`, hooks,
/// and `recomputed` within `recomputed`. What the function captures gets its gradients as if there were no recomputation, whether or not an input
/// needs one. Without grad mode it is a plain call. Not collective, unless the function is: then all ranks must make their backward passes in the
/// same order.
///
/// The second run draws the random numbers that the first one drew from the default generators (of the CPU, of the current device and of those of the
/// inputs), which then stand where they stood before; it runs in the autocast modes of the first. Autocast's cache of weights is emptied around
/// either.
///
/// @param function called with the inputs as const lvalues, also by backward passes, on any thread that runs them. It must return
/// the same result each time; whatever it refers to must still exist then, and tensors that it captures must not have changed. It
/// returns a tensor, or a std::vector, array, tuple, pair or optional of such values; results within other types keep their graphs
/// as usual.
/// @param inputs copied (tensors without their data), and kept until the backward pass has ended. Tensors within them, which may be
/// undefined or need no gradient, must not change. Modules among them, or as the function, by holder, pointer or std::ref, keep their
/// buffers as the first run left them; the second run also changes the buffers of other modules (such as running statistics of batch
/// norms).
/// @throws ContractError at once where the function changes an input in place; in the backward pass where an input or a parameter was changed since,
///         where the second run differs from the first in number, shapes, dtypes or devices of outputs, in which of them need a gradient, or in the
///         tensors that they depend on (so do, on devices, functions that differentiate with create_graph), and where what is needed was freed by a
///         backward pass before. What the function throws passes through.
/// Ref: Chen et al. 2016, "Training deep nets with sublinear memory cost", arXiv 1604.06174.
template <class Function, class... Inputs>
auto recomputed(Function&& function, Inputs&&... inputs) {
  using Result = std::decay_t<std::invoke_result_t<std::decay_t<Function>&, const std::decay_t<Inputs>&...>>;
  static_assert(HoldsTensors<Result>::value, "recomputed() is for functions that return tensors");
  static_assert(!(std::is_convertible_v<std::decay_t<Inputs>*, at::TensorList*> || ...), "a TensorList holds nothing: hand on a std::vector");
  detail::Recomputation again;
  const auto add = [&again](const auto& value, std::vector<at::Tensor>& to, auto tensors) {
    for (at::Tensor& each : tensors(value)) to.push_back(std::move(each));
  };
  (add(inputs, again.inputs, [](const auto& value) { return detail::tensors_of(value); }), ...);
  (add(inputs, again.buffers, [](const auto& value) { return detail::buffers_of(value); }), ...);
  add(function, again.buffers, [](const auto& value) { return detail::buffers_of(value); });
  auto call = [function = std::decay_t<Function>(std::forward<Function>(function)),
               stored = std::tuple<std::decay_t<Inputs>...>(std::forward<Inputs>(inputs)...)]() mutable -> Result {
    return std::apply(function, std::as_const(stored));
  };
  const auto shared = std::make_shared<decltype(call)>(std::move(call));  // functions that cannot be copied are welcome
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
