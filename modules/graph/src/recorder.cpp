// SPDX-License-Identifier: Apache-2.0
#include "recorder.hpp"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/ObservedOperators.h>
#include <c10/core/GradMode.h>

#include <tw/graph/operator_listener.hpp>

#include "random.hpp"

namespace tw::graph {
namespace {

/// The last values of a stack, which out of TorchScript is the whole one of its interpreter; lists as they are now, for TorchScript's may grow.
std::vector<c10::IValue> last_of(const torch::jit::Stack& stack, size_t count) {
  std::vector<c10::IValue> values = torch::jit::last(stack, count).vec();
  for (c10::IValue& value : values) {
    if (value.isList()) value = value.toList().copy();
  }
  return values;
}

/// While it lives, LibTorch makes attention and recurrent layers of operators that a graph can draw for, and not of CUDA's kernels, which draw by
/// themselves.
class WithoutFusedKernels {
 public:
  WithoutFusedKernels() { set(false, false, false, false); }
  ~WithoutFusedKernels() { set(flash_, memory_efficient_, cudnn_attention_, cudnn_); }
  WithoutFusedKernels(const WithoutFusedKernels&) = delete;
  WithoutFusedKernels& operator=(const WithoutFusedKernels&) = delete;

 private:
  void set(bool flash, bool memory_efficient, bool cudnn_attention, bool cudnn) {
    context_.setSDPUseFlash(flash);
    context_.setSDPUseMemEfficient(memory_efficient);
    context_.setSDPUseCuDNN(cudnn_attention);
    context_.setUserEnabledCuDNN(cudnn);
  }

  at::Context& context_ = at::globalContext();
  bool flash_ = context_.userEnabledFlashSDP();
  bool memory_efficient_ = context_.userEnabledMemEfficientSDP();
  bool cudnn_attention_ = context_.userEnabledCuDNNSDP();
  bool cudnn_ = context_.userEnabledCuDNN();
};

class Recorder final : public OperatorListener {
 public:
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) override {
    // Such as a tensor's size, which LibTorch does not show to profilers either.
    if (!c10::ObservedOperators::isObserved(op.operator_name())) return carry_out(op, stack);
    Call call{op.operator_name(), last_of(stack, op.schema().arguments().size())};
    call.with_gradient = !with_gradient_ || c10::GradMode::is_enabled();
    call.inside = opened_ > 0;
    if (draws(op, call.arguments) && is_made_of_others(op)) {
      const WithoutFusedKernels made_of_others;
      ++opened_;
      open(op, keys, stack);
      --opened_;
      return;
    }
    carry_out(op, stack);
    call.results = last_of(stack, op.schema().returns().size());
    calls_.push_back(std::move(call));
  }

  std::vector<Call> take() { return std::move(calls_); }

 private:
  const bool with_gradient_ = c10::GradMode::is_enabled();  // at its beginning
  int opened_ = 0;                                          // operators in flight that are recorded as what they are made of
  std::vector<Call> calls_;
};

}  // namespace

std::vector<Call> recorded(const std::function<void()>& run) {
  Recorder recorder;
  run();
  return recorder.take();
}

}  // namespace tw::graph
