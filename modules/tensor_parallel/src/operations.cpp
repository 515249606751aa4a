// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/operations.hpp>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/library.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "part.hpp"

namespace tw::tensor_parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// State for a backward pass. It holds its own handle to the communicator, because the user may have released theirs by then.
struct Setting : torch::CustomClassHolder {
  Setting(const Communicator& comm, int64_t of_size) : communicator(mpi::share(comm)), size(of_size) {}
  Communicator communicator;
  int64_t size;  ///< size of the last dimension of the whole tensor
};
using SettingPointer = c10::intrusive_ptr<Setting>;

/// The two operations of a pair are each other's backward pass.
template <class Operation>
struct Function : torch::autograd::Function<Function<Operation>> {
  static Variable forward(AutogradContext* context, const Variable& input, const SettingPointer& setting) {
    context->saved_data["setting"] = c10::IValue::make_capsule(setting);
    return Operation::run(*setting, input);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto setting = c10::static_intrusive_pointer_cast<Setting>(context->saved_data["setting"].toCapsule());
    return {Function<typename Operation::Transposed>::apply(gradients[0], setting), Variable()};
  }
};

template <class Operation>
Variable apply(const Communicator& comm, const Variable& input, int64_t size) {
  return Function<Operation>::apply(input, c10::make_intrusive<Setting>(comm, size));
}

struct Reduce;
struct Scatter;

struct Copy {
  using Transposed = Reduce;
  static Variable run(const Setting& /*setting*/, const Variable& input) { return input; }
};

struct Reduce {
  using Transposed = Copy;
  static Variable run(const Setting& setting, const Variable& input) {
    Variable output = input.clone(at::MemoryFormat::Contiguous);
    allreduce(setting.communicator, output, ReduceOp::sum);
    return output;
  }
};

struct Gather {
  using Transposed = Scatter;
  static Variable run(const Setting& setting, const Variable& input) {
    const Communicator& comm = setting.communicator;
    const int64_t longest = divide_up(setting.size, comm.size());
    std::vector<int64_t> shape = input.sizes().vec();
    shape.back() = longest;
    const Variable mine = input.size(-1) == longest ? input : at::zeros(shape, input.options());
    if (!mine.is_same(input)) mine.narrow(-1, 0, input.size(-1)).copy_(input);
    shape.insert(shape.begin(), comm.size());
    const Variable all = at::empty(shape, input.options());  // [P, ..., longest]
    allgather(comm, mine, all);
    variable_list parts;
    for (int rank = 0; rank < comm.size(); ++rank) parts.push_back(all[rank].narrow(-1, 0, part_of(comm, rank, setting.size).count()));
    return at::cat(parts, -1);
  }
};

struct Scatter {
  using Transposed = Gather;
  static Variable run(const Setting& setting, const Variable& input) {
    const auto part = own_part(setting.communicator, setting.size);
    return input.narrow(-1, part.begin, part.count()).clone(at::MemoryFormat::Contiguous);
  }
};

// Other types would silently produce a result without gradient.
void expect_floating_point(const at::Tensor& input, const char* operation) {
  TW_EXPECTS(input.defined() && input.is_floating_point(), operation, " needs a floating-point tensor, got ",
             input.defined() ? dtype_name(input.scalar_type()) : "an undefined tensor");
}

}  // namespace

at::Tensor copy_to_ranks(const Communicator& comm, const at::Tensor& input) {
  expect_floating_point(input, "copy_to_ranks");
  return apply<Copy>(comm, input, 0);
}

at::Tensor reduce_from_ranks(const Communicator& comm, const at::Tensor& input) {
  expect_floating_point(input, "reduce_from_ranks");
  return apply<Reduce>(comm, input, 0);
}

at::Tensor gather_from_ranks(const Communicator& comm, const at::Tensor& input, int64_t size) {
  expect_floating_point(input, "gather_from_ranks");
  TW_EXPECTS(size >= 0, "the size of the whole tensor's last dimension must be at least 0, got ", size);
  TW_EXPECTS(input.dim() > 0 && input.size(-1) == own_part(comm, size).count(), "gather_from_ranks expects ", own_part(comm, size).count(),
             " of the ", size, " elements of the last dimension on rank ", comm.rank(), " of ", comm.size(), ", got ",
             shape_text(input.sizes().vec()));
  return apply<Gather>(comm, input, size);
}

at::Tensor scatter_to_ranks(const Communicator& comm, const at::Tensor& input) {
  expect_floating_point(input, "scatter_to_ranks");
  TW_EXPECTS(input.dim() > 0, "scatter_to_ranks needs a last dimension to split, got shape []");
  return apply<Scatter>(comm, input, input.size(-1));
}

}  // namespace tw::tensor_parallel
