// SPDX-License-Identifier: Apache-2.0
#include "recorder.hpp"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/ObservedOperators.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <optional>
#include <tw/graph/dry_run.hpp>
#include <tw/graph/operator_listener.hpp>
#include <tw/graph/random_stream.hpp>
#include <utility>

#include "random.hpp"
#include "without_memory.hpp"

namespace tw::graph {
namespace {

/// The last values of a stack, which may also hold other values of TorchScript's interpreter. Copies lists, since TorchScript's lists may grow.
std::vector<c10::IValue> last_of(const torch::jit::Stack& stack, size_t count) {
  std::vector<c10::IValue> values = torch::jit::last(stack, count).vec();
  for (c10::IValue& value : values) {
    if (value.isList()) value = value.toList().copy();
  }
  return values;
}

/// While alive, LibTorch composes attention and recurrent layers from operators that a graph can draw for, instead of CUDA kernels that draw
/// internally.
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

/// Copies of the arguments that an operator does not declare to change.
class ArgumentsBefore {
 public:
  ArgumentsBefore(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments) : arguments_(arguments) {
    const auto& declared = op.schema().arguments();
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const auto* alias = declared[i].alias_info();
      const bool is_compared = arguments_[i].isTensor() && has_memory(arguments_[i].toTensor()) && (alias == nullptr || !alias->isWrite());
      if (is_compared) copies_.emplace_back(i, in_host_memory(arguments_[i].toTensor(), true));
    }
  }

  /// The arguments that have changed.
  std::vector<size_t> changed() const {
    std::vector<size_t> found;
    for (const auto& [i, before] : copies_) {
      const at::Tensor now = in_host_memory(arguments_[i].toTensor(), false);
      const bool is_same = now.sizes() == before.sizes() && std::memcmp(now.const_data_ptr(), before.const_data_ptr(), now.nbytes()) == 0;
      if (!is_same) found.push_back(i);
    }
    return found;
  }

 private:
  static bool has_memory(const at::Tensor& tensor) { return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_meta(); }
  static at::Tensor in_host_memory(const at::Tensor& tensor, bool is_kept) {
    const at::Tensor plain = tensor.variable_data();
    const at::Tensor here = plain.cpu().contiguous();
    return is_kept && here.is_alias_of(plain) ? here.clone() : here;
  }

  const std::vector<c10::IValue>& arguments_;
  std::vector<std::pair<size_t, at::Tensor>> copies_;
};

class Recorder final : public OperatorListener {
 public:
  explicit Recorder(bool opens) : opens_(opens) {}

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) override {
    // Unobserved operators, e.g. a tensor's size; profilers do not see them either.
    if (!c10::ObservedOperators::isObserved(op.operator_name())) return execute(op, stack);
    Call call{op.operator_name(), last_of(stack, op.schema().arguments().size())};
    call.with_gradient = !with_gradient_ || c10::GradMode::is_enabled();
    call.inside = opened_ > 0;
    call.stream = RandomStream::here();
    if (is_made_of_others(op) && (opens_ || draws(op, call.arguments))) {
      const WithoutFusedKernels made_of_others;
      ++opened_;
      open(op, keys, stack);
      --opened_;
      return;
    }
    std::optional<ArgumentsBefore> before;
    without_listening([&] { before.emplace(op, call.arguments); });
    if (lacks_memory(op, stack)) {
      execute_without_memory(op, stack, without_kernel_);
    } else {
      execute(op, stack);
    }
    without_listening([&] { call.writes = before->changed(); });
    call.results = last_of(stack, op.schema().returns().size());
    calls_.push_back(std::move(call));
  }

  std::vector<Call> take() { return std::move(calls_); }

 private:
  const bool opens_;
  const bool with_gradient_ = c10::GradMode::is_enabled();  // at its beginning
  int opened_ = 0;                                          // nesting depth of composite operators recorded by their parts
  std::vector<Call> calls_;
  WithoutKernel without_kernel_;
};

}  // namespace

std::vector<Call> recorded(const std::function<void()>& run, bool opens) {
  const DryRun dry;
  Recorder recorder(opens);
  run();
  return recorder.take();
}

}  // namespace tw::graph
