// SPDX-License-Identifier: Apache-2.0
#include "operators.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <mutex>
#include <optional>
#include <vector>

#include "memory.hpp"
#include "recurrent.hpp"
#include "streams.hpp"

namespace tw::testing::accelerator {
namespace {

using Stack = torch::jit::Stack;

// Replaces every tensor in `value` by the result of `f`.
template <class F>
void for_each_tensor(c10::IValue& value, F f) {
  if (value.isTensor()) {
    value = f(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(f(tensor));
    value = list;
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& tensor : value.toOptionalTensorVector()) list.push_back(tensor ? std::optional(f(*tensor)) : std::nullopt);
    value = list;
  }
}

template <class F>
Stack with_tensors(Stack stack, F f) {
  for (c10::IValue& value : stack) for_each_tensor(value, f);
  return stack;
}

bool is_device(const at::Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

at::Tensor allocated(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType type, c10::Device device) {
  const c10::DeviceGuard guard(device);
  return at::detail::empty_strided_generic(sizes, strides, device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type);
}

at::Tensor on_meta(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions().dtype(tensor.scalar_type()).device(c10::kMeta));
}

/// While alive, the CPU's operators draw from a device's generator.
class DeviceNumbers {
 public:
  explicit DeviceNumbers(c10::Device device)
      : host_(at::detail::getDefaultCPUGenerator()), device_(at::globalContext().defaultGenerator(device)), state_(host_.get_state()) {
    host_.set_state(device_.get_state());
  }
  ~DeviceNumbers() {
    device_.set_state(host_.get_state());
    host_.set_state(state_);
  }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;

 private:
  at::Generator host_;
  at::Generator device_;
  at::Tensor state_;  // of host_
};

/// A call of an operator with some arguments on a device.
class OperatorCall {
 public:
  OperatorCall(const c10::OperatorHandle& op, Stack arguments) : op_(op), arguments_(std::move(arguments)) {
    (void)with_tensors(arguments_, [&](const at::Tensor& tensor) {
      if (is_device(tensor)) device_ = tensor.device();
      return tensor;
    });
    for (const c10::IValue& value : arguments_) {
      if (value.isDevice() && value.toDevice().type() == device_type) device_ = value.toDevice();
    }
    if (!device_.has_index()) device_ = current_device();
  }

  /// Returns results on the device. They are computed later if their shapes are known now.
  Stack run() {
    const at::AutoDispatchBelowAutograd below;
    if (const auto results = is_foreseeable() ? foreseen() : std::nullopt) {
      Stack given = give(*results);
      put(current_stream(device_), [op = op_, stack = seen_by_streams(arguments_), places = with_tensors(given, seen_by_stream)]() mutable {
        const at::AutoDispatchBelowAutograd below_too;
        op.callBoxed(&stack);
        fill(places, stack);
      });
      return given;
    }
    finish(current_stream(device_));
    if (waits_for_value()) wait_on_host(current_stream(device_));
    Stack stack = seen_by_streams(arguments_);
    const std::optional<DeviceNumbers> numbers = has_tag(at::Tag::nondeterministic_seeded) ? std::optional<DeviceNumbers>(device_) : std::nullopt;
    op_.callBoxed(&stack);
    Stack given = give(stack);
    auto places = with_tensors(given, seen_by_stream);
    fill(places, stack);
    return given;
  }

 private:
  const c10::FunctionSchema& schema() const { return op_.schema(); }

  bool has_tag(at::Tag tag) const { return op_.hasTag(tag); }
  bool waits_for_value() const {
    if (has_tag(at::Tag::data_dependent_output) || has_tag(at::Tag::dynamic_output_shape)) return true;
    for (const auto& result : schema().returns()) {
      if (result.type()->kind() != c10::TypeKind::TensorType && result.type()->kind() != c10::TypeKind::ListType) return true;
    }
    return false;
  }
  // Random numbers are drawn in the order of the calls.
  bool is_foreseeable() const { return !waits_for_value() && !has_tag(at::Tag::nondeterministic_seeded); }

  // The result shapes, computed with meta tensors.
  std::optional<Stack> foreseen() const {
    Stack stack = with_tensors(arguments_, on_meta);
    for (c10::IValue& value : stack) {
      if (value.isDevice()) value = c10::Device(c10::kMeta);
    }
    try {
      op_.callBoxed(&stack);
      return stack;
    } catch (const std::exception&) {
      return std::nullopt;  // no meta kernel for this case
    }
  }

  static Stack seen_by_streams(const Stack& arguments) {
    Stack stack = with_tensors(arguments, seen_by_stream);
    for (c10::IValue& value : stack) {
      if (value.isDevice()) value = c10::Device(c10::kCPU);
    }
    return stack;
  }

  // The argument that a result aliases.
  std::optional<size_t> argument_of(size_t result) const {
    const auto* alias = schema().returns()[result].alias_info();
    if (alias == nullptr) return std::nullopt;
    TORCH_CHECK(alias->isWrite(), "the simulated accelerator lacks the view ", schema().operator_name());
    for (size_t i = 0; i < schema().arguments().size(); ++i) {
      const auto* of = schema().arguments()[i].alias_info();
      if (of != nullptr && of->isWrite() && of->beforeSets() == alias->beforeSets()) return i;
    }
    return std::nullopt;
  }

  // Results with the shapes of `like`: written arguments, resized if necessary, or new tensors.
  Stack give(const Stack& like) const {
    Stack given;
    for (size_t i = 0; i < like.size(); ++i) {
      c10::IValue value = like[i];
      if (const auto argument = argument_of(i)) {
        const at::Tensor written = arguments_[*argument].isTensor() ? arguments_[*argument].toTensor() : at::Tensor();
        if (is_device(written) && value.isTensor() && written.sizes() != value.toTensor().sizes()) written.resize_(value.toTensor().sizes());
        given.push_back(arguments_[*argument]);
        continue;
      }
      for_each_tensor(value, [&](const at::Tensor& tensor) {
        return tensor.defined() ? allocated(tensor.sizes(), tensor.strides(), tensor.scalar_type(), device_) : tensor;
      });
      given.push_back(std::move(value));
    }
    return given;
  }

  // Copies results into `places`, except those already there: arguments that were written and not resized.
  static void fill(Stack& places, Stack& results) {
    for (size_t i = 0; i < places.size(); ++i) {
      std::vector<at::Tensor> from;
      for_each_tensor(results[i], [&](const at::Tensor& tensor) { return from.emplace_back(tensor); });
      for_each_tensor(places[i], [&, at = size_t{0}](const at::Tensor& place) mutable {
        if (place.defined() && place.const_data_ptr() != from[at].const_data_ptr()) at::Tensor(place).copy_(from[at]);
        ++at;
        return place;
      });
    }
  }

  c10::OperatorHandle op_;
  Stack arguments_;
  c10::Device device_{device_type, -1};
};

void any_operator(const c10::OperatorHandle& op, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  stack->resize(stack->size() - count);
  for (c10::IValue& result : OperatorCall(op, std::move(arguments)).run()) stack->push_back(std::move(result));
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<at::Device> device,
                 std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   dtype.value_or(at::get_default_dtype_as_scalartype()), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  return allocated(size, stride, dtype.value_or(at::get_default_dtype_as_scalartype()), device.value_or(current_device()));
}

// Like CUDA: runs in the device's current stream. The host waits without `non_blocking`, or if it receives into memory that is not pinned.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const at::NoGradGuard no_grad;
  const bool between_devices = is_device(from) && is_device(to);
  const c10::Stream stream = current_stream((is_device(from) ? from : to).device());
  if (between_devices && from.device() != to.device()) wait_in(stream, record(current_stream(to.device())));
  const bool host_is_read = !is_device(from) && !(non_blocking && from.is_pinned());
  const at::Tensor source = host_is_read ? from.clone() : from;
  put(stream, [source = seen_by_stream(source), place = seen_by_stream(to)]() mutable {
    const at::AutoDispatchBelowAutograd below;
    place.copy_(source);
  });
  if (between_devices && from.device() != to.device()) wait_in(current_stream(to.device()), record(stream));
  const bool host_is_written = !is_device(to) && !(non_blocking && to.is_pinned());
  if (host_is_written || (host_is_read && !non_blocking)) wait_on_host(stream);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef size, std::optional<at::MemoryFormat>) {
  const auto element_bytes = static_cast<int64_t>(self.element_size());
  const int64_t had = static_cast<int64_t>(self.storage().nbytes()) / element_bytes;
  const int64_t needed = self.storage_offset() + c10::multiply_integers(size);
  if (needed > had) {
    const at::Tensor larger = allocated({needed}, {1}, self.scalar_type(), self.device());
    if (had > 0) larger.narrow(0, 0, had).copy_(self.as_strided({had}, {1}, 0));
    self.unsafeGetTensorImpl()->set_storage_keep_dtype(larger.storage());
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, int64_t offset, c10::IntArrayRef size, c10::IntArrayRef stride) {
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset);
  return self;
}

at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

void record_stream(at::Tensor& self, c10::Stream stream) { used_by(self.storage(), stream); }

// Convolutions dispatch to these two operators by name, without the fallback.
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias, c10::IntArrayRef stride,
                       c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding, int64_t groups) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", "");
  Stack stack{input, weight, bias, stride, padding, dilation, transposed, output_padding, groups};
  return OperatorCall(op, std::move(stack)).run()[0].toTensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                                                    c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation,
                                                                    bool transposed, c10::IntArrayRef output_padding, int64_t groups,
                                                                    std::array<bool, 3> mask) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", "");
  const c10::IValue bias_sizes = mask[2] ? c10::IValue(std::vector<int64_t>{grad.size(1)}) : c10::IValue();
  Stack stack{grad, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask};
  const Stack results = OperatorCall(op, std::move(stack)).run();
  return {results[0].toTensor(), results[1].toTensor(), results[2].toTensor()};
}

}  // namespace

void register_operators() {
  static torch::Library any(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  any.fallback(torch::CppFunction::makeFromBoxedFunction<&any_operator>());
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  aten.impl("empty.memory_format", empty);
  aten.impl("empty_strided", empty_strided);
  aten.impl("_copy_from", copy_from);
  aten.impl("_copy_from_and_resize", copy_from_and_resize);
  aten.impl("resize_", resize);
  aten.impl("set_.source_Storage_storage_offset", set_storage);
  aten.impl("as_strided", as_strided);
  aten.impl("view", [](const at::Tensor& self, c10::IntArrayRef size) { return at::native::view(self, size); });
  aten.impl("_reshape_alias",
            [](const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride) { return at::native::_reshape_alias(self, size, stride); });
  aten.impl("view_as_real", at::native::view_as_real);
  aten.impl("view_as_complex", at::native::view_as_complex);
  aten.impl("unfold",
            [](const at::Tensor& self, int64_t dimension, int64_t size, int64_t step) { return at::native::unfold(self, dimension, size, step); });
  aten.impl("record_stream", record_stream);
  aten.impl("mse_loss", torch::CppFunction::makeFromBoxedFunction<&any_operator>());  // otherwise it would use mse_loss.out, which resizes its
                                                                                      // argument
  aten.impl("convolution_overrideable", convolution);
  aten.impl("convolution_backward_overrideable", convolution_backward);
  register_recurrent_cells(aten);
  // Copying a conjugated or negated view handles the flag itself; resolving it first would need a copy.
  static torch::Library conjugated(torch::Library::IMPL, "aten", c10::DispatchKey::Conjugate, __FILE__, __LINE__);
  conjugated.impl("_copy_from", torch::CppFunction::makeFallthrough());
  static torch::Library negated(torch::Library::IMPL, "aten", c10::DispatchKey::Negative, __FILE__, __LINE__);
  negated.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace tw::testing::accelerator
