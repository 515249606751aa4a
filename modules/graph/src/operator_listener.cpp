// SPDX-License-Identifier: Apache-2.0
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <tw/autograd/late_registration.hpp>
#include <tw/copy_mark.hpp>
#include <tw/graph/operator_listener.hpp>
#include <utility>

namespace tw::graph {
namespace {

// Only keys of Python (PreDispatch, PythonDispatcher) have a higher priority. LibTorch itself uses this one in its tests only.
constexpr auto key = c10::DispatchKey::TESTING_ONLY_GenericMode;

[[gnu::used, gnu::aligned(4), gnu::section(".note.torchweave")]] const CopyMark copy_mark = {.module = {"graph"}};

thread_local OperatorListener* listener = nullptr;

void dispatch_to_listener(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (listener == nullptr) {  // on autograd's thread, which inherits the caller's keys
    OperatorListener::execute(op, *stack);
  } else {
    listener->call(op, keys, *stack);
  }
}

LateRegistration registration;  // by the first listener

void expect_registered() {
  registration.once([] {
    expect_only_copy();
    torch::Library library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&dispatch_to_listener>());
    return library;
  });
}

}  // namespace

OperatorListener::OperatorListener() : before_(listener) {
  expect_registered();
  listener = this;
  c10::impl::tls_set_dispatch_key_included(key, true);
}

OperatorListener::~OperatorListener() {
  listener = before_;
  c10::impl::tls_set_dispatch_key_included(key, before_ != nullptr);
}

void OperatorListener::draw(const c10::OperatorHandle& /*op*/, const torch::jit::Stack& /*arguments*/, uint64_t /*seed*/) {}

void OperatorListener::report_draw(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, uint64_t seed) {
  if (listener != nullptr && !c10::impl::tls_is_dispatch_key_excluded(key)) listener->draw(op, arguments, seed);
}

void OperatorListener::without_listening(const std::function<void()>& run) {
  const c10::impl::ExcludeDispatchKeyGuard alone(key);
  run();
}

void OperatorListener::execute(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const c10::impl::ExcludeDispatchKeyGuard alone(key);
  op.callBoxed(stack);
}

void OperatorListener::open(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) {
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key), &stack);
}

}  // namespace tw::graph
