// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/operations.hpp>

#include <ATen/WrapDimUtils.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
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

/// @param size of dimension `dim` of the whole tensor; 0 for operators that do not need it. @param groups number of groups that the dimension has,
/// one after the other; a rank has its part of each
using Kernel = at::Tensor(const at::Tensor& input, const RanksPointer& ranks, int64_t size, int64_t dim, int64_t groups);

/// The dimension that is divided.
struct Division {
  int64_t size = 0;
  int64_t dim = -1;
  int64_t groups = 1;
};

/// Calls an operator through LibTorch's dispatcher.
template <class Operation>
at::Tensor call(const at::Tensor& input, const RanksPointer& ranks, const Division& of) {
  static const auto op = operator_of<Kernel>(Operation::name);
  return op.call(input, ranks, of.size, of.dim, of.groups);
}

/// Whether an operator must not communicate. Its result then has the right shape, but only this rank's values.
bool is_local(const at::Tensor& input) { return input.is_meta() || graph::DryRun::here(); }

/// `input` with dimension `dim` as two: its groups, and what a group has.
at::Tensor by_groups(const at::Tensor& input, int64_t dim, int64_t groups) { return input.unflatten(dim, {groups, input.size(dim) / groups}); }

// The two operations of a pair are each other's backward pass.

struct Reduce;
struct Scatter;
struct Pass;

struct Copy {
  using Transposed = Reduce;
  static constexpr const char* name = "copy_to_ranks";
  static constexpr const char* schema =
      "(Tensor(a) input, __torch__.torch.classes.torchweave.Ranks ranks, int size, int dim=-1, int groups=1) -> Tensor(a)";
  static at::Tensor run(const Communicator& /*comm*/, const at::Tensor& input, const Division& /*of*/) { return at::alias(input); }
};

struct Reduce {
  using Transposed = Copy;
  static constexpr const char* name = "reduce_from_ranks";
  static constexpr const char* schema =
      "(Tensor input, __torch__.torch.classes.torchweave.Ranks ranks, int size, int dim=-1, int groups=1) -> Tensor";
  static at::Tensor run(const Communicator& comm, const at::Tensor& input, const Division& /*of*/) {
    at::Tensor output = input.clone(at::MemoryFormat::Contiguous);
    if (!is_local(input)) allreduce(comm, output, ReduceOp::sum);
    return output;
  }
};

struct Gather {
  using Transposed = Scatter;
  static constexpr const char* name = "gather_from_ranks";
  static constexpr const char* schema = Reduce::schema;
  static at::Tensor run(const Communicator& comm, const at::Tensor& input, const Division& of) {
    const int64_t dim = at::maybe_wrap_dim(of.dim, input.dim());
    const at::Tensor part = by_groups(input, dim, of.groups);
    const int64_t size = of.size / of.groups;  // of a group
    std::vector<int64_t> shape = part.sizes().vec();
    const auto along = static_cast<size_t>(dim) + 1;
    if (is_local(input)) {
      shape[along] = size;
      const at::Tensor whole = at::zeros(shape, input.options());
      const auto mine = own_part(comm, size);
      whole.narrow(dim + 1, mine.begin, mine.count()).copy_(part);
      return whole.flatten(dim, dim + 1);
    }
    const int64_t longest = divide_up(size, comm.size());
    const bool fits = part.size(dim + 1) == longest;
    shape[along] = longest;
    const at::Tensor mine = fits ? part.contiguous() : at::zeros(shape, input.options());
    if (!fits) mine.narrow(dim + 1, 0, part.size(dim + 1)).copy_(part);
    shape.insert(shape.begin(), comm.size());
    const at::Tensor all = at::empty(shape, input.options());  // [P, ..., groups, longest, ...]
    allgather(comm, mine, all);
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < comm.size(); ++rank) parts.push_back(all[rank].narrow(dim + 1, 0, part_of(comm, rank, size).count()));
    return at::cat(parts, dim + 1).flatten(dim, dim + 1);
  }
};

struct Scatter {
  using Transposed = Gather;
  static constexpr const char* name = "scatter_to_ranks";
  static constexpr const char* schema = Reduce::schema;
  static at::Tensor run(const Communicator& comm, const at::Tensor& input, const Division& of) {
    const int64_t dim = at::maybe_wrap_dim(of.dim, input.dim());
    const auto part = own_part(comm, of.size / of.groups);
    return by_groups(input, dim, of.groups).narrow(dim + 1, part.begin, part.count()).flatten(dim, dim + 1).clone(at::MemoryFormat::Contiguous);
  }
};

/// A replicated tensor as a partial one: the first rank keeps it, the others have zeros.
struct Keep {
  using Transposed = Pass;
  static constexpr const char* name = "keep_on_first_rank";
  static constexpr const char* schema = Reduce::schema;
  static at::Tensor run(const Communicator& comm, const at::Tensor& input, const Division& /*of*/) {
    return comm.rank() == 0 ? input.clone() : at::zeros_like(input);
  }
};

/// A sum has the same cotangent as each summand. This operator has no use of its own.
struct Pass {
  using Transposed = Keep;
  static constexpr const char* name = "pass_to_ranks";
  static constexpr const char* schema = Copy::schema;
  static at::Tensor run(const Communicator& /*comm*/, const at::Tensor& input, const Division& /*of*/) { return at::alias(input); }
};

template <class Operation>
struct BackwardNode final : torch::autograd::Node {
  BackwardNode(RanksPointer ranks, const Division& of) : ranks_(std::move(ranks)), of_(of) {}

  std::string name() const override { return concat("tw::", Operation::name, "_backward"); }
  variable_list apply(variable_list&& cotangents) override {
    std::optional<graph::DryRun> dry;  // on accelerators, autograd calls this on its own thread
    if (is_dry_) dry.emplace();
    const at::Tensor cotangent = cotangents[0].defined() ? std::move(cotangents[0]) : input_metadata(0).zeros_like();
    return {call<typename Operation::Transposed>(cotangent, ranks_, of_)};
  }

 private:
  RanksPointer ranks_;
  Division of_;
  bool is_dry_ = graph::DryRun::here();
};

/// The kernel below autograd.
template <class Operation>
at::Tensor compute(const at::Tensor& input, const RanksPointer& ranks, int64_t size, int64_t dim, int64_t groups) {
  return Operation::run(ranks->communicator, input, {.size = size, .dim = dim, .groups = groups});
}

/// The kernel of autograd.
template <class Operation>
at::Tensor differentiable(const at::Tensor& input, const RanksPointer& ranks, int64_t size, int64_t dim, int64_t groups) {
  at::Tensor output = [&] {
    const at::AutoDispatchBelowAutograd below;
    const at::NoGradGuard no_gradient;  // LibTorch then refuses in-place changes of a view, which would bypass the node
    return compute<Operation>(input, ranks, size, dim, groups);
  }();
  if (torch::autograd::compute_requires_grad(input)) {
    const auto node = make_graph_node<BackwardNode<Operation>>(ranks, Division{size, dim, groups});
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

void define_operations(torch::Library& library) { define<Copy, Reduce, Gather, Scatter, Keep, Pass>(library); }

at::Tensor copy_to_ranks(const Communicator& comm, const at::Tensor& input) {
  expect_floating_point(input, "copy_to_ranks");
  return call<Copy>(input, c10::make_intrusive<Ranks>(comm), {});
}

at::Tensor reduce_from_ranks(const Communicator& comm, const at::Tensor& input) {
  expect_floating_point(input, "reduce_from_ranks");
  return call<Reduce>(input, c10::make_intrusive<Ranks>(comm), {});
}

at::Tensor gather_from_ranks(const Communicator& comm, const at::Tensor& input, int64_t size) {
  expect_floating_point(input, "gather_from_ranks");
  TW_EXPECTS(size >= 0, "the size of the whole tensor's last dimension must be at least 0, got ", size);
  TW_EXPECTS(input.dim() > 0 && input.size(-1) == own_part(comm, size).count(), "gather_from_ranks expects ", own_part(comm, size).count(),
             " of the ", size, " elements of the last dimension on rank ", comm.rank(), " of ", comm.size(), ", got ",
             shape_text(input.sizes().vec()));
  return call<Gather>(input, c10::make_intrusive<Ranks>(comm), {.size = size});
}

at::Tensor scatter_to_ranks(const Communicator& comm, const at::Tensor& input) {
  expect_floating_point(input, "scatter_to_ranks");
  TW_EXPECTS(input.dim() > 0, "scatter_to_ranks needs a last dimension to split, got shape []");
  return call<Scatter>(input, c10::make_intrusive<Ranks>(comm), {.size = input.size(-1)});
}

}  // namespace tw::tensor_parallel
