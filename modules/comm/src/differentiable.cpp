// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/differentiable.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/library.hpp>
#include <tw/tensor/tensor_spec.hpp>

namespace tw::differentiable {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// What a backward pass needs. It shares the communicator, because the user may have dropped it by then.
struct Setting : torch::CustomClassHolder {
  Setting(const Communicator& comm, ReduceOp of_op, int of_root) : communicator(mpi::share(comm)), op(of_op), root(of_root) {}
  Communicator communicator;
  ReduceOp op;
  int root;
};
using SettingPointer = c10::intrusive_ptr<Setting>;

void expect_sum_or_average(ReduceOp op) {
  TW_EXPECTS(op == ReduceOp::sum || op == ReduceOp::average, "only sum and average have a derivative here, not ", name_of(op));
}

// Other dtypes would silently come out without a gradient.
void expect_differentiable(const at::Tensor& input, const char* operation) {
  const bool fits = input.defined() && (input.is_floating_point() || input.is_complex());
  TW_EXPECTS(fits, operation, " needs a floating point or complex tensor, got ",
             input.defined() ? dtype_name(input.scalar_type()) : "an undefined one");
}

void expect_parts(const Communicator& comm, const at::Tensor& input, const char* operation) {
  TW_EXPECTS(input.dim() > 0 && input.size(0) == comm.size(), operation, " needs an input of shape [", comm.size(), ", ...], got ",
             shape_text(input.sizes().vec()));
}

// The setting travels to the backward pass in a capsule, because autograd saves only tensors and plain values.
template <class Forward>
struct Operation : torch::autograd::Function<Operation<Forward>> {
  static Variable forward(AutogradContext* context, const Variable& input, const SettingPointer& setting) {
    context->saved_data["setting"] = c10::IValue::make_capsule(setting);
    return Forward::run(*setting, input);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto setting = c10::static_intrusive_pointer_cast<Setting>(context->saved_data["setting"].toCapsule());
    return {Forward::transposed(setting, gradients[0]), Variable()};
  }
};

template <class Forward>
Variable apply(const Variable& input, const SettingPointer& setting) {
  return Operation<Forward>::apply(input, setting);
}

std::vector<int64_t> shape_of_all(const Communicator& comm, const at::Tensor& input) {
  std::vector<int64_t> shape = input.sizes().vec();
  shape.insert(shape.begin(), comm.size());
  return shape;
}

struct ReduceScatter;

struct Allreduce {
  static Variable run(const Setting& setting, const Variable& input) {
    const Variable output = input.clone(at::MemoryFormat::Contiguous);
    tw::allreduce(setting.communicator, output, setting.op);
    return output;
  }
  static Variable transposed(const SettingPointer& setting, const Variable& gradient) { return apply<Allreduce>(gradient, setting); }
};

struct Allgather {
  static Variable run(const Setting& setting, const Variable& input) {
    const Variable output = at::empty(shape_of_all(setting.communicator, input), input.options());
    tw::allgather(setting.communicator, input, output);
    const bool averages = setting.op == ReduceOp::average;  // transpose of an averaging reduce_scatter
    return averages ? output.div_(setting.communicator.size()) : output;
  }
  static Variable transposed(const SettingPointer& setting, const Variable& gradient) { return apply<ReduceScatter>(gradient, setting); }
};

struct ReduceScatter {
  static Variable run(const Setting& setting, const Variable& input) {
    Variable output = at::empty(input.sizes().slice(1), input.options());
    tw::reduce_scatter(setting.communicator, input, output, setting.op);
    return output;
  }
  static Variable transposed(const SettingPointer& setting, const Variable& gradient) { return apply<Allgather>(gradient, setting); }
};

struct Alltoall {
  static Variable run(const Setting& setting, const Variable& input) {
    Variable output = at::empty(input.sizes(), input.options());
    tw::alltoall(setting.communicator, input, output);
    return output;
  }
  static Variable transposed(const SettingPointer& setting, const Variable& gradient) { return apply<Alltoall>(gradient, setting); }
};

struct ReduceToRoot;

struct Broadcast {
  static Variable run(const Setting& setting, const Variable& input) {
    const Variable output = input.clone(at::MemoryFormat::Contiguous);
    tw::broadcast(setting.communicator, output, Rank(setting.root));
    return output;
  }
  static Variable transposed(const SettingPointer& setting, const Variable& gradient) { return apply<ReduceToRoot>(gradient, setting); }
};

struct ReduceToRoot {
  static Variable run(const Setting& setting, const Variable& input) {
    const Variable output = input.clone(at::MemoryFormat::Contiguous);
    tw::reduce(setting.communicator, output, ReduceOp::sum, Rank(setting.root));
    return setting.communicator.rank() == setting.root ? output : output.zero_();
  }
  static Variable transposed(const SettingPointer& setting, const Variable& gradient) { return apply<Broadcast>(gradient, setting); }
};

SettingPointer make_setting(const Communicator& comm, ReduceOp op, int root = 0) { return c10::make_intrusive<Setting>(comm, op, root); }

}  // namespace

at::Tensor allreduce(const Communicator& comm, const at::Tensor& input, ReduceOp op) {
  expect_differentiable(input, "allreduce");
  expect_sum_or_average(op);
  return apply<Allreduce>(input, make_setting(comm, op));
}

at::Tensor allgather(const Communicator& comm, const at::Tensor& input) {
  expect_differentiable(input, "allgather");
  return apply<Allgather>(input, make_setting(comm, ReduceOp::sum));
}

at::Tensor reduce_scatter(const Communicator& comm, const at::Tensor& input, ReduceOp op) {
  expect_differentiable(input, "reduce_scatter");
  expect_sum_or_average(op);
  expect_parts(comm, input, "reduce_scatter");
  return apply<ReduceScatter>(input, make_setting(comm, op));
}

at::Tensor alltoall(const Communicator& comm, const at::Tensor& input) {
  expect_differentiable(input, "alltoall");
  expect_parts(comm, input, "alltoall");
  return apply<Alltoall>(input, make_setting(comm, ReduceOp::sum));
}

at::Tensor broadcast(const Communicator& comm, const at::Tensor& input, Rank root) {
  expect_differentiable(input, "broadcast");
  return apply<Broadcast>(input, make_setting(comm, ReduceOp::sum, root));
}

}  // namespace tw::differentiable
