// SPDX-License-Identifier: Apache-2.0
#include "without_memory.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sum.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>
#include <tw/base/error.hpp>
#include <tw/graph/operator_listener.hpp>
#include <utility>
#include <vector>

namespace tw::graph {
namespace {

using Stack = torch::jit::Stack;

bool is_without_memory(const c10::IValue& value) {
  const auto is = [](const c10::IValue& each) { return each.isTensor() && each.toTensor().defined() && each.toTensor().is_meta(); };
  return value.isList() ? std::ranges::any_of(value.toListRef(), is) : is(value);
}

/// A tensor of the same shape and strides without memory. Autograd sees the copy.
at::Tensor without_memory(const at::Tensor& tensor) { return tensor.is_meta() ? tensor : tensor.to(at::kMeta); }

/// Zeros of the same shape and strides, on the CPU. The system provides their pages when they are written; until then all share one.
at::Tensor untouched_zeros(const at::Tensor& tensor) {
  const size_t bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size());
  void* memory = std::calloc(std::max<size_t>(bytes, 1), 1);
  if (memory == nullptr) throw std::bad_alloc();
  return at::from_blob(
      memory, tensor.sizes(), tensor.strides(), [](void* data) { std::free(data); }, at::TensorOptions().dtype(tensor.scalar_type()));
}

/// An operator's arguments with stand-ins for its tensors.
class StandIns {
 public:
  using Make = std::function<at::Tensor(const at::Tensor&)>;

  StandIns(const Stack& arguments, Make make) : make_(std::move(make)) {
    for (const c10::IValue& argument : arguments) arguments_.push_back(argument.isList() ? of_list(argument.toList()) : of_value(argument));
  }

  const Stack& arguments() const noexcept { return arguments_; }
  /// The tensor that `made` stands for, as in the result of an operator in place; undefined if it is none.
  at::Tensor original(const at::Tensor& made) const {
    const auto found = std::ranges::find_if(all_, [&](const auto& each) { return each.first.is_same(made); });
    return found == all_.end() ? at::Tensor() : found->second;
  }
  /// A number without memory that depends on all originals that require gradients, for autograd's records; undefined if none does.
  at::Tensor sum_of_trained() const {
    at::Tensor sum;
    for (const auto& [made, original] : all_) {
      if (!original.requires_grad()) continue;
      const at::Tensor part = without_memory(original).sum();
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  }

 private:
  c10::IValue of_value(const c10::IValue& value) {
    // LibTorch allows numbers next to tensors on another device.
    const bool has_none = !value.isTensor() || !value.toTensor().defined() || (value.toTensor().dim() == 0 && !value.toTensor().is_meta());
    return has_none ? value : all_.emplace_back(make_(value.toTensor()), value.toTensor()).first;
  }
  c10::IValue of_list(const c10::List<c10::IValue>& list) {
    const c10::List<c10::IValue> made = list.copy();
    for (size_t i = 0; i < made.size(); ++i) made.set(i, of_value(made.get(i)));
    return made;
  }

  Make make_;
  Stack arguments_;
  std::vector<std::pair<at::Tensor, at::Tensor>> all_;  // stand-in, original
};

/// Replaces each tensor among `results`, also in lists.
void for_each_tensor(Stack& results, const std::function<at::Tensor(const at::Tensor&)>& replace) {
  const auto replaced = [&](const c10::IValue& value) -> c10::IValue {
    return value.isTensor() && value.toTensor().defined() ? replace(value.toTensor()) : value;
  };
  for (c10::IValue& result : results) {
    if (result.isList()) {
      const c10::List<c10::IValue> list = result.toList();
      for (size_t i = 0; i < list.size(); ++i) list.set(i, replaced(list.get(i)));
    } else {
      result = replaced(result);
    }
  }
}

Stack on_meta(const c10::OperatorHandle& op, const Stack& arguments) {
  const StandIns made(arguments, without_memory);
  Stack results = made.arguments();
  OperatorListener::execute(op, results);
  for_each_tensor(results, [&](const at::Tensor& result) {
    const at::Tensor original = made.original(result);
    return original.defined() ? original : result;
  });
  return results;
}

/// @throws Error if the operator returns a number, since it was computed from zeros.
void expect_tensors(const Stack& arguments, const Stack& results) {
  const bool compares_with_itself = arguments.size() == 2 && arguments[0].isTensor() && arguments[0].isSameIdentity(arguments[1]);
  const auto is_number = [](const c10::IValue& each) { return !each.isTensor() && !each.isList(); };
  if (compares_with_itself || std::ranges::none_of(results, is_number)) return;
  throw Error("it reads a number from a tensor, and without memory there is none: control flow must not depend on data");
}

Stack on_zeros(const c10::OperatorHandle& op, const Stack& arguments) {
  const StandIns made(arguments, untouched_zeros);
  Stack results = made.arguments();
  {
    const c10::AutoGradMode no_gradients(false);
    OperatorListener::execute(op, results);
  }
  expect_tensors(arguments, results);
  const at::Tensor source = made.sum_of_trained();
  for_each_tensor(results, [&](const at::Tensor& result) {
    if (const at::Tensor original = made.original(result); original.defined()) return original;
    const at::Tensor empty = at::empty_strided(result.sizes(), result.strides(), result.options().device(at::kMeta));
    const bool is_trained = source.defined() && (empty.is_floating_point() || empty.is_complex());
    return is_trained ? empty.add_(source.to(empty.scalar_type())) : empty;
  });
  return results;
}

}  // namespace

bool lacks_memory(const c10::OperatorHandle& op, const Stack& stack) {
  return std::ranges::any_of(torch::jit::last(stack, op.schema().arguments().size()), is_without_memory);
}

void execute_without_memory(const c10::OperatorHandle& op, Stack& stack, WithoutKernel& without_kernel) {
  // A view needs only the shapes of other tensors, and shares the memory of its own.
  const auto is_viewed = [](const c10::Argument& each) { return each.alias_info() != nullptr && !each.alias_info()->isWrite(); };
  if (std::ranges::any_of(op.schema().arguments(), is_viewed)) return OperatorListener::execute(op, stack);
  const size_t count = op.schema().arguments().size();
  const Stack arguments = torch::jit::last(stack, count).vec();
  torch::jit::drop(stack, count);
  Stack results;
  OperatorListener::without_listening([&] {
    if (!without_kernel.contains(op.operator_name())) {
      try {
        results = on_meta(op, arguments);
        return;
      } catch (const c10::NotImplementedError&) {
        without_kernel.insert(op.operator_name());
      }
    }
    results = on_zeros(op, arguments);
  });
  stack.insert(stack.end(), results.begin(), results.end());
}

}  // namespace tw::graph
