// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <set>
#include <tw/autograd/operator_watch.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>
#include <tw/data_parallel/initial_values.hpp>
#include <tw/graph/operator_listener.hpp>
#include <vector>

namespace tw {
namespace {

constexpr int64_t block = 4096;  // elements drawn together

/// An elementwise operator, and its arguments after the tensor.
struct Filling {
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments;
};

/// The operators that fill a tensor.
struct History {
  c10::Storage storage;
  uint64_t number = 0;
  int64_t numel = 0;
  std::vector<Filling> fillings = {};
  std::string refused = {};
};

bool fills_by_element(const std::string& name) {
  static const std::set<std::string> names{"aten::uniform_", "aten::normal_", "aten::zero_",  "aten::fill_",      "aten::add_",      "aten::sub_",
                                           "aten::mul_",     "aten::div_",    "aten::clamp_", "aten::clamp_min_", "aten::clamp_max_"};
  return names.contains(name);
}

c10::StorageImpl* storage_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

}  // namespace

struct InitialValues::Impl {
  uint64_t seed;
  std::map<const c10::StorageImpl*, History> histories;
};

struct InitialValues::Recording::Listener final : graph::OperatorListener {
  explicit Listener(Impl& of) : impl(of) {}

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) override {
    const size_t count = op.schema().arguments().size();
    const c10::ArrayRef<c10::IValue> arguments = torch::jit::last(stack, count);
    const std::string& name = op.schema().name();
    if (name == "aten::empty" || name == "aten::empty_strided") return make(op, stack);
    if (count > 0 && arguments[0].isTensor() && is_known(arguments[0].toTensor())) {
      const c10::AliasInfo* alias = op.schema().arguments()[0].alias_info();
      if (alias != nullptr && alias->isWrite()) note(op, arguments.vec());
      return execute(op, stack);
    }
    open(op, keys, stack);
  }

  void make(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
    const auto& names = op.schema().arguments();
    const size_t first = stack.size() - names.size();
    int64_t numel = 1;
    for (const int64_t length : stack[first].toIntVector()) numel *= length;
    c10::ScalarType dtype = at::get_default_dtype_as_scalartype();
    bool on_cpu = true;
    size_t device = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      const c10::IValue& value = stack[first + i];
      if (names[i].name() == "dtype" && !value.isNone()) dtype = value.toScalarType();
      if (names[i].name() != "device") continue;
      device = first + i;
      on_cpu = value.isNone() || value.toDevice().is_cpu();
    }
    const bool without_memory = on_cpu && numel >= min_numel && c10::isFloatingType(dtype);
    if (without_memory) stack[device] = c10::Device(c10::kMeta);
    execute(op, stack);
    if (!without_memory) return;
    const at::Tensor& made = stack.back().toTensor();
    impl.histories.emplace(storage_of(made), History{made.storage(), impl.histories.size(), numel});
  }

  bool is_known(const at::Tensor& tensor) const {
    return tensor.defined() && tensor.is_meta() && tensor.has_storage() && impl.histories.contains(storage_of(tensor));
  }

  void note(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments) {
    const at::Tensor& tensor = arguments[0].toTensor();
    History& history = impl.histories.at(storage_of(tensor));
    const std::string& name = op.schema().name();
    const bool has_tensor = std::any_of(arguments.begin() + 1, arguments.end(), [](const c10::IValue& value) { return value.isTensor(); });
    const bool whole = tensor.numel() == history.numel && tensor.is_non_overlapping_and_dense();
    if (fills_by_element(name) && !has_tensor && whole) {
      history.fillings.push_back({op, std::vector<c10::IValue>(arguments.begin() + 1, arguments.end())});
    } else if (history.refused.empty()) {
      history.refused = concat(name, whole ? "" : " on a part of it", has_tensor ? " with another tensor" : "");
    }
  }

  Impl& impl;
};

InitialValues::Recording::Recording(InitialValues& values) : listener_(std::make_unique<Listener>(*values.impl_)) {}
InitialValues::Recording::~Recording() = default;

InitialValues::InitialValues(uint64_t seed) : impl_(std::make_unique<Impl>(Impl{seed, {}})) {}
InitialValues::~InitialValues() = default;

void InitialValues::fill(const at::Tensor& part, const at::Tensor& tensor, int64_t begin, const std::string& name) const {
  const auto found = impl_->histories.find(storage_of(tensor));
  TW_EXPECTS(found != impl_->histories.end() && found->second.numel == tensor.numel(), name,
             " has no memory, and its initial values are unknown: it is computed from other tensors, or was not made under record()");
  const History& history = found->second;
  TW_EXPECTS(history.refused.empty(), name, " is filled by ", history.refused, ", which cannot be done in parts");
  const at::NoGradGuard no_grad;
  const at::Tensor values = at::empty({block}, at::device(at::kCPU).dtype(tensor.scalar_type()));
  for (int64_t first = begin / block * block; first < begin + part.numel(); first += block) {
    const uint64_t of_tensor = derived_seed(impl_->seed, history.number);
    const at::Generator generator = at::detail::createCPUGenerator(derived_seed(of_tensor, static_cast<uint64_t>(first / block)));
    values.zero_();
    for (const Filling& filling : history.fillings) {
      torch::jit::Stack stack{values};
      const auto& schema = filling.op.schema().arguments();
      for (size_t i = 0; i < filling.arguments.size(); ++i) {
        const bool draws = schema[i + 1].name() == "generator";
        stack.push_back(draws ? c10::IValue(generator) : filling.arguments[i]);
      }
      filling.op.callBoxed(stack);
    }
    const int64_t from = std::max(first, begin);
    const int64_t to = std::min(first + block, begin + part.numel());
    part.narrow(0, from - begin, to - from).copy_(values.narrow(0, from - first, to - from));
  }
}

void InitialValues::allocate(const at::Tensor& tensor, const std::string& name) const {
  if (!tensor.is_meta()) return;
  const at::Tensor values = at::empty({tensor.numel()}, tensor.options().device(at::kCPU).requires_grad(false));
  fill(values, tensor, 0, name);
  place_in_storage(tensor, values.storage(), 0, values.scalar_type());
}

}  // namespace tw
