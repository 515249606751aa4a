// SPDX-License-Identifier: Apache-2.0
#include <tw/autograd/operator_watch.hpp>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <c10/util/strides.h>
#include <torch/headeronly/version.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tw/autograd/late_registration.hpp>
#include <tw/copy_mark.hpp>

namespace tw {
namespace {

[[gnu::used, gnu::aligned(4), gnu::section(".note.torchweave")]] const CopyMark copy_mark = {.module = {"autograd"}};

// LibTorch itself uses this key in its tests only.
constexpr auto watched_key = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

struct Context {
  std::shared_ptr<WatchedMemory> memory;
  std::shared_ptr<void> keeps;
};

void end_of_pointer(void* context) { delete static_cast<Context*>(context); }

const at::DataPtr& pointer_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
}

WatchedMemory* memory_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->key_set().has(watched_key)) return nullptr;
  const at::DataPtr& data = pointer_of(tensor);
  if (data.get_deleter() != &end_of_pointer) return nullptr;
  WatchedMemory* memory = static_cast<Context*>(data.get_context())->memory.get();
  return memory->owner == nullptr ? nullptr : memory;
}

class Arguments {
 public:
  Arguments(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
      written_ = alias != nullptr && alias->isWrite();
      look(values[i]);
    }
  }
  std::span<const WatchedArgument> watched() const { return {watched_.data(), watched_.size()}; }

 private:
  void look(const c10::IValue& value) {
    if (value.isTensor()) {
      add(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorList()) add(tensor);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) add(tensor.value_or(at::Tensor()));
    }
  }
  void add(const at::Tensor& tensor) {
    if (WatchedMemory* memory = memory_of(tensor)) watched_.push_back({memory, tensor.storage_offset(), written_});
  }

  c10::SmallVector<WatchedArgument, 4> watched_;
  bool written_ = false;
};

void dispatch_watched(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard inside(watched_key);
  const Arguments arguments(op.schema(), torch::jit::last(*stack, op.schema().arguments().size()));
  c10::SmallVector<MemoryOwner*, 2> notified;
  for (const WatchedArgument& each : arguments.watched()) {
    MemoryOwner* owner = each.memory->owner;
    if (std::find(notified.begin(), notified.end(), owner) != notified.end()) continue;
    notified.push_back(owner);
    owner->before_operator(arguments.watched(), op.schema().name());
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, watched_key), stack);
}

void replace(const at::Tensor& tensor, const c10::Storage& storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype, int64_t offset,
             at::IntArrayRef strides) {
  const c10::InferenceMode normal(false);  // otherwise the tensor would become an inference tensor for good
  const auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage), keys, dtype);
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(tensor.sizes(), strides);
  tensor.unsafeGetTensorImpl()->shallow_copy_from(impl);
}

LateRegistration registration;  // by the first watched tensor

void expect_registered() {
  registration.once([] {
    expect_only_copy();
    torch::Library library(torch::Library::IMPL, "_", watched_key, __FILE__, __LINE__);
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&dispatch_watched>());
    return library;
  });
}

}  // namespace

at::DataPtr watched_pointer(void* data, std::shared_ptr<WatchedMemory> memory, std::shared_ptr<void> keeps, c10::Device device) {
  return {data, new Context{std::move(memory), std::move(keeps)}, &end_of_pointer, device};
}

std::shared_ptr<void> kept_by(const at::Tensor& tensor, const MemoryOwner& owner) {
  const WatchedMemory* memory = memory_of(tensor);
  return memory == nullptr || memory->owner != &owner ? nullptr : static_cast<Context*>(pointer_of(tensor).get_context())->keeps;
}

void watch(const at::Tensor& tensor, bool watched) {
  const c10::DispatchKeySet before = tensor.key_set();
  if (before.has(watched_key) == watched) return;
  if (watched) expect_registered();
  replace(tensor, tensor.unsafeGetTensorImpl()->unsafe_storage(), watched ? before.add(watched_key) : before.remove(watched_key), tensor.dtype(),
          tensor.storage_offset(), tensor.strides());
}

// Before LibTorch 2.13 such a message could not be removed; there, taking a pointer to absent memory returns null.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
void allow_pointers(const c10::Storage& storage) { storage.unsafeGetStorageImpl()->clear_data_ptr_access_error_msg_(); }
void refuse_pointers(const c10::Storage& storage, const std::string& why) {
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(why);
}
#else
void allow_pointers(const c10::Storage& /*storage*/) {}
void refuse_pointers(const c10::Storage& /*storage*/, const std::string& /*why*/) {}
#endif

bool has_temporary_memory(const at::Tensor& tensor) {
  if (!tensor.has_storage() || pointer_of(tensor).get_deleter() != &end_of_pointer) return false;
  return !static_cast<Context*>(pointer_of(tensor).get_context())->memory->stays;
}

void place_in_storage(const at::Tensor& tensor, const c10::Storage& storage, int64_t offset, c10::ScalarType dtype) {
  const at::Tensor example = at::empty({0}, at::device(storage.device()).dtype(dtype));
  replace(tensor, storage, example.key_set(), example.dtype(), offset, c10::contiguous_strides(tensor.sizes()));
}

}  // namespace tw
