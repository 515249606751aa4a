// SPDX-License-Identifier: Apache-2.0
// Compiled with NDEBUG, whatever the build: at::RecordFunction has other members without it than in LibTorch's binaries.
#include "operator_watch.hpp"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <vector>

namespace tw {
namespace {

struct Context {
  std::shared_ptr<WatchedMemory> memory;
  std::shared_ptr<void> keeps;
};

void end_of_pointer(void* context) { delete static_cast<Context*>(context); }

WatchedMemory* memory_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return nullptr;
  const at::DataPtr& data = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  if (data.get_deleter() != &end_of_pointer) return nullptr;
  WatchedMemory* memory = static_cast<Context*>(data.get_context())->memory.get();
  return memory->owner == nullptr ? nullptr : memory;
}

thread_local int depth = 0;             // of operators under way
thread_local std::vector<Taken> taken;  // by the operator that begins; kept for its memory

bool writes(const at::RecordFunction& call, size_t argument) {
  const std::optional<c10::FunctionSchema> schema = call.operator_schema();
  if (!schema || argument >= schema->arguments().size()) return true;
  const c10::AliasInfo* alias = schema->arguments()[argument].alias_info();
  return alias != nullptr && alias->isWrite();
}

void take(const at::RecordFunction& call, size_t argument, const at::Tensor& tensor) {
  WatchedMemory* memory = memory_of(tensor);
  if (memory != nullptr) taken.push_back({memory, memory->asks_writes && writes(call, argument)});
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
  taken.clear();
  const c10::ArrayRef<const c10::IValue> inputs = call.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const c10::IValue& input = inputs[i];
    if (input.isTensor()) {
      take(call, i, input.toTensor());
    } else if (input.isTensorList()) {
      for (const at::Tensor& tensor : input.toTensorList()) take(call, i, tensor);
    } else if (input.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : input.toOptionalTensorList()) take(call, i, tensor.value_or(at::Tensor()));
    }
  }
  const bool outermost = depth++ == 0;
  if (taken.empty()) return nullptr;
  const std::vector<Taken> all = std::move(taken);  // an owner may call operators itself
  std::vector<MemoryOwner*> told;
  for (const Taken& each : all) {
    MemoryOwner* owner = each.memory->owner;
    if (std::find(told.begin(), told.end(), owner) != told.end()) continue;
    told.push_back(owner);
    owner->before_operator(all, outermost);
  }
  return nullptr;
}

void end(const at::RecordFunction& /*call*/, at::ObserverContext* /*context*/) { --depth; }

int watches = 0;
at::CallbackHandle handle{};

}  // namespace

at::DataPtr watched(void* data, std::shared_ptr<WatchedMemory> memory, std::shared_ptr<void> keeps, c10::Device device) {
  return {data, new Context{std::move(memory), std::move(keeps)}, &end_of_pointer, device};
}

OperatorWatch::OperatorWatch() {
  if (watches++ > 0) return;
  handle = at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

OperatorWatch::~OperatorWatch() {
  if (--watches == 0) at::removeCallback(handle);
}

}  // namespace tw
