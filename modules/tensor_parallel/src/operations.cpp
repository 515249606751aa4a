// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/operations.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include <optional>
#include <tw/autograd/graph_node.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/graph/dry_run.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "operators.hpp"
#include "part.hpp"

namespace tw::tensor_parallel {
namespace {

using torch::autograd::variable_list;

/// @param size of the last dimension of the whole tensor; 0 for operators that do not need it
using Kernel = at::Tensor(const at::Tensor& input, const RanksPointer& ranks, int64_t size);

/// Calls an operator through LibTorch's dispatcher.
template <class Operation>
at::Tensor call(const at::Tensor& input, const RanksPointer& ranks, int64_t size) {
  static const auto op = operator_of<Kernel>(Operation::name);
  return op.call(input, ranks, size);
}

/// Whether an operator must not communicate. Its result then has the right shape, but only this rank's values.
bool is_local(const at::Tensor& input) { return input.is_meta() || graph::DryRun::here(); }

// The two operations of a pair are each other's backward pass.

struct Reduce;
struct Scatter;

struct Copy {
  using Transposed = Reduce;
  static constexpr const char* name = "copy_to_ranks";
  static constexpr const char* schema = "(Tensor(a) input, __torch__.torch.classes.torchweave.Ranks ranks, int size) -> Tensor(a)";
  static at::Tensor run(const Communicator& /*comm*/, const at::Tensor& input, int64_t /*size*/) { return at::alias(input); }
};

struct Reduce {
  using Transposed = Copy;
  static constexpr const char* name = "reduce_from_ranks";
  static constexpr const char* schema = "(Tensor input, __torch__.torch.classes.torchweave.Ranks ranks, int size) -> Tensor";
  static at::Tensor run(const Communicator& comm, const at::Tensor& input, int64_t /*size*/) {
    at::Tensor output = input.clone(at::MemoryFormat::Contiguous);
    if (!is_local(input)) allreduce(comm, output, ReduceOp::sum);
    return output;
  }
};

struct Gather {
  using Transposed = Scatter;
  static constexpr const char* name = "gather_from_ranks";
  static constexpr const char* schema = Reduce::schema;
  static at::Tensor run(const Communicator& comm, const at::Tensor& input, int64_t size) {
    std::vector<int64_t> shape = input.sizes().vec();
    if (is_local(input)) {
      shape.back() = size;
      const at::Tensor whole = at::zeros(shape, input.options());
      const auto part = own_part(comm, size);
      whole.narrow(-1, part.begin, part.count()).copy_(input);
      return whole;
    }
    const int64_t longest = divide_up(size, comm.size());
    shape.back() = longest;
    const at::Tensor mine = input.size(-1) == longest ? input : at::zeros(shape, input.options());
    if (!mine.is_same(input)) mine.narrow(-1, 0, input.size(-1)).copy_(input);
    shape.insert(shape.begin(), comm.size());
    const at::Tensor all = at::empty(shape, input.options());  // [P, ..., longest]
    allgather(comm, mine, all);
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < comm.size(); ++rank) parts.push_back(all[rank].narrow(-1, 0, part_of(comm, rank, size).count()));
    return at::cat(parts, -1);
  }
};

struct Scatter {
  using Transposed = Gather;
  static constexpr const char* name = "scatter_to_ranks";
  static constexpr const char* schema = Reduce::schema;
  static at::Tensor run(const Communicator& comm, const at::Tensor& input, int64_t size) {
    const auto part = own_part(comm, size);
    return input.narrow(-1, part.begin, part.count()).clone(at::MemoryFormat::Contiguous);
  }
};

template <class Operation>
struct BackwardNode final : torch::autograd::Node {
  BackwardNode(RanksPointer ranks, int64_t size) : ranks_(std::move(ranks)), size_(size) {}

  std::string name() const override { return concat("tw::", Operation::name, "_backward"); }
  variable_list apply(variable_list&& cotangents) override {
    std::optional<graph::DryRun> dry;  // on accelerators, autograd calls this on its own thread
    if (is_dry_) dry.emplace();
    const at::Tensor cotangent = cotangents[0].defined() ? std::move(cotangents[0]) : input_metadata(0).zeros_like();
    return {call<typename Operation::Transposed>(cotangent, ranks_, size_)};
  }

 private:
  RanksPointer ranks_;
  int64_t size_;
  bool is_dry_ = graph::DryRun::here();
};

/// The kernel below autograd.
template <class Operation>
at::Tensor compute(const at::Tensor& input, const RanksPointer& ranks, int64_t size) {
  return Operation::run(ranks->communicator, input, size);
}

/// The kernel of autograd.
template <class Operation>
at::Tensor differentiable(const at::Tensor& input, const RanksPointer& ranks, int64_t size) {
  at::Tensor output = [&] {
    const at::AutoDispatchBelowAutograd below;
    const at::NoGradGuard no_gradient;  // LibTorch then refuses in-place changes of a view, which would bypass the node
    return compute<Operation>(input, ranks, size);
  }();
  if (torch::autograd::compute_requires_grad(input)) {
    const auto node = make_graph_node<BackwardNode<Operation>>(ranks, size);
    node->set_next_edges(torch::autograd::collect_next_edges(input));
    torch::autograd::set_history(output, node);
  }
  return output;
}

template <class... Operations>
void define(torch::Library& library) {
  const auto define_one = [&](const char* name, const char* schema, Kernel* below, Kernel* above) {
    library.def((std::string(name) + schema).c_str());
    library.impl(name, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, below));
    library.impl(name, torch::dispatch(c10::DispatchKey::Autograd, above));
  };
  (define_one(Operations::name, Operations::schema, &compute<Operations>, &differentiable<Operations>), ...);
}

// Other types would silently produce a result without gradient.
void expect_floating_point(const at::Tensor& input, const char* operation) {
  TW_EXPECTS(input.defined() && input.is_floating_point(), operation, " needs a floating-point tensor, got ",
             input.defined() ? dtype_name(input.scalar_type()) : "an undefined tensor");
}

}  // namespace

void define_operations(torch::Library& library) { define<Copy, Reduce, Gather, Scatter>(library); }

at::Tensor copy_to_ranks(const Communicator& comm, const at::Tensor& input) {
  expect_floating_point(input, "copy_to_ranks");
  return call<Copy>(input, c10::make_intrusive<Ranks>(comm), 0);
}

at::Tensor reduce_from_ranks(const Communicator& comm, const at::Tensor& input) {
  expect_floating_point(input, "reduce_from_ranks");
  return call<Reduce>(input, c10::make_intrusive<Ranks>(comm), 0);
}

at::Tensor gather_from_ranks(const Communicator& comm, const at::Tensor& input, int64_t size) {
  expect_floating_point(input, "gather_from_ranks");
  TW_EXPECTS(size >= 0, "the size of the whole tensor's last dimension must be at least 0, got ", size);
  TW_EXPECTS(input.dim() > 0 && input.size(-1) == own_part(comm, size).count(), "gather_from_ranks expects ", own_part(comm, size).count(),
             " of the ", size, " elements of the last dimension on rank ", comm.rank(), " of ", comm.size(), ", got ",
             shape_text(input.sizes().vec()));
  return call<Gather>(input, c10::make_intrusive<Ranks>(comm), size);
}

at::Tensor scatter_to_ranks(const Communicator& comm, const at::Tensor& input) {
  expect_floating_point(input, "scatter_to_ranks");
  TW_EXPECTS(input.dim() > 0, "scatter_to_ranks needs a last dimension to split, got shape []");
  return call<Scatter>(input, c10::make_intrusive<Ranks>(comm), input.size(-1));
}

}  // namespace tw::tensor_parallel
