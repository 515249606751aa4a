// SPDX-License-Identifier: Apache-2.0
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <tw/graph/operator_listener.hpp>
#include <utility>

namespace tw::graph {
namespace {

// The key of highest priority; LibTorch itself uses it in its tests only.
constexpr auto key = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local OperatorListener* listener = nullptr;

void hear(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (listener == nullptr) {  // on autograd's thread, which inherits the caller's keys
    OperatorListener::carry_out(op, *stack);
  } else {
    listener->call(op, keys, *stack);
  }
}

}  // namespace

// NOLINTNEXTLINE: LibTorch's macro
TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&hear>()); }

OperatorListener::OperatorListener() : before_(std::exchange(listener, this)) { c10::impl::tls_set_dispatch_key_included(key, true); }

OperatorListener::~OperatorListener() {
  listener = before_;
  c10::impl::tls_set_dispatch_key_included(key, before_ != nullptr);
}

void OperatorListener::unheard(const std::function<void()>& run) {
  const c10::impl::ExcludeDispatchKeyGuard alone(key);
  run();
}

void OperatorListener::carry_out(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const c10::impl::ExcludeDispatchKeyGuard alone(key);
  op.callBoxed(stack);
}

void OperatorListener::open(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) {
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key), &stack);
}

}  // namespace tw::graph
