// SPDX-License-Identifier: Apache-2.0
// Differentiable collectives, compared with one process that holds the inputs of all ranks and lets LibTorch differentiate the sum of their losses.
//
// Tolerances, in units of u = 2^-53. All numbers are drawn from [-1, 1], and there are at most 4 ranks.
// - First derivatives: sums of at most 4 numbers in some order, divided at most once by 4. Both sides have at most 3 additions and a division, each
//   with an error of u times at most 4: 2 * 4 * 4 u = 32 u.
// - Second derivatives of c y^3 with |y| <= 4: g = A'(3 c y^2) is a sum of at most 4 numbers below 48, and the derivative of <v, g> is A'(6 c y A v),
//   a sum of at most 4 numbers below 6 * 4 * 4 = 96. Each side has some 10 roundings, each with an error of u times at most 4 * 96: 2 * 10 * 384 u <
//   8192 u.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <functional>
#include <tw/comm.hpp>

namespace differentiable_test {

using tw::ReduceOp;
using tw::testing::message_of;
using tw::testing::world;
using Tensors = std::vector<at::Tensor>;

constexpr double unit = 0x1p-53;
constexpr double first_tolerance = 32 * unit;
constexpr double second_tolerance = 8192 * unit;

/// A collective, and the same in one process: the outputs of all ranks from the inputs of all ranks.
struct Case {
  std::string name;
  std::function<at::Tensor(const tw::Communicator& comm, const at::Tensor& input)> ours;
  std::function<Tensors(const Tensors& inputs)> serial;
};

at::Tensor sum_of(const Tensors& inputs) { return torch::stack(inputs).sum(0); }
at::Tensor mean_of(const Tensors& inputs) { return sum_of(inputs) / static_cast<double>(inputs.size()); }

/// All ranks receive `result`.
Tensors everywhere(const at::Tensor& result, size_t ranks) { return Tensors(ranks, result); }

/// Rank r receives the r-th part of `whole`.
Tensors parts_of(const at::Tensor& whole) {
  Tensors parts;
  for (int64_t rank = 0; rank < whole.size(0); ++rank) parts.push_back(whole[rank]);
  return parts;
}

const std::vector<Case> cases{
    {"allreduce_sum", [](const auto& comm, const auto& x) { return tw::differentiable::allreduce(comm, x, ReduceOp::sum); },
     [](const Tensors& xs) { return everywhere(sum_of(xs), xs.size()); }},
    {"allreduce_average", [](const auto& comm, const auto& x) { return tw::differentiable::allreduce(comm, x, ReduceOp::average); },
     [](const Tensors& xs) { return everywhere(mean_of(xs), xs.size()); }},
    {"allgather", [](const auto& comm, const auto& x) { return tw::differentiable::allgather(comm, x); },
     [](const Tensors& xs) { return everywhere(torch::stack(xs), xs.size()); }},
    {"reduce_scatter_sum", [](const auto& comm, const auto& x) { return tw::differentiable::reduce_scatter(comm, x, ReduceOp::sum); },
     [](const Tensors& xs) { return parts_of(sum_of(xs)); }},
    {"reduce_scatter_average", [](const auto& comm, const auto& x) { return tw::differentiable::reduce_scatter(comm, x, ReduceOp::average); },
     [](const Tensors& xs) { return parts_of(mean_of(xs)); }},
    {"alltoall", [](const auto& comm, const auto& x) { return tw::differentiable::alltoall(comm, x); },
     [](const Tensors& xs) { return parts_of(torch::stack(xs).transpose(0, 1)); }},
    {"broadcast_from_the_first", [](const auto& comm, const auto& x) { return tw::differentiable::broadcast(comm, x, tw::Rank(0)); },
     [](const Tensors& xs) { return everywhere(xs.front(), xs.size()); }},
    {"broadcast_from_the_last", [](const auto& comm, const auto& x) { return tw::differentiable::broadcast(comm, x, tw::Rank(comm.size() - 1)); },
     [](const Tensors& xs) { return everywhere(xs.back(), xs.size()); }},
};

at::Tensor random(int seed, at::IntArrayRef shape, at::ScalarType dtype = at::kDouble) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  const at::Tensor real = 2 * torch::rand(shape, at::kDouble) - 1;
  return tw::testing::place(dtype == at::kDouble ? real : torch::complex(real, 2 * torch::rand(shape, at::kDouble) - 1));
}

/// The input of rank `rank`: a leaf of shape [P, 2, 3].
at::Tensor input_of(int rank, at::ScalarType dtype = at::kDouble) { return random(rank, {world().size(), 2, 3}, dtype).requires_grad_(); }

/// The cotangent of rank `rank`.
at::Tensor cotangent_of(int rank, const at::Tensor& output) { return random(100 + rank, output.sizes(), output.scalar_type()); }

Tensors inputs_of_all(at::ScalarType dtype = at::kDouble) {
  Tensors inputs;
  for (int rank = 0; rank < world().size(); ++rank) inputs.push_back(input_of(rank, dtype));
  return inputs;
}

at::Tensor linear_loss(const at::Tensor& output, const at::Tensor& cotangent) {
  const at::Tensor product = (cotangent.conj() * output).sum();
  return product.is_complex() ? torch::real(product) : product;
}

at::Tensor cubic_loss(const at::Tensor& output, const at::Tensor& cotangent) { return (cotangent * output.pow(3)).sum(); }

// An input that the loss does not depend on has an undefined gradient, which stands for 0.
at::Tensor or_zeros(const at::Tensor& gradient, const at::Tensor& like) { return gradient.defined() ? gradient : torch::zeros_like(like); }

class Differentiable : public testing::TestWithParam<Case> {
 protected:
  at::Tensor ours(const at::Tensor& input) const { return GetParam().ours(world(), input); }
  Tensors serial(const Tensors& inputs) const { return GetParam().serial(inputs); }
  static size_t rank() { return static_cast<size_t>(int{world().rank()}); }
};

void expect_near(const at::Tensor& got, const at::Tensor& expected, double tolerance) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  EXPECT_LE((got - expected).abs().max().item<double>(), tolerance);
}

TEST_P(Differentiable, ComputesWhatOneProcessDoes) {
  const at::Tensor input = input_of(world().rank());
  const at::Tensor output = ours(input);
  expect_near(output, serial(inputs_of_all())[rank()], first_tolerance);
  EXPECT_TRUE(output.requires_grad());
  EXPECT_TRUE(input.equal(input_of(world().rank())));
  EXPECT_FALSE(ours(input.detach()).requires_grad());
}

TEST_P(Differentiable, GivesTheGradientOfTheSumOfAllLosses) {
  for (const auto dtype : {at::kDouble, at::kComplexDouble}) {
    const at::Tensor input = input_of(world().rank(), dtype);
    const at::Tensor output = ours(input);
    linear_loss(output, cotangent_of(world().rank(), output)).backward();

    const Tensors inputs = inputs_of_all(dtype);
    const Tensors outputs = serial(inputs);
    at::Tensor loss = torch::zeros({}, at::kDouble);
    for (size_t other = 0; other < outputs.size(); ++other)
      loss = loss + linear_loss(outputs[other], cotangent_of(static_cast<int>(other), outputs[other]));
    loss.backward();
    expect_near(input.grad(), or_zeros(inputs[rank()].grad(), input), first_tolerance);
  }
}

TEST_P(Differentiable, GivesTheSecondDerivative) {
  const auto direction_of = [](int rank) { return random(200 + rank, {world().size(), 2, 3}); };
  const at::Tensor input = input_of(world().rank());
  const at::Tensor output = ours(input);
  const at::Tensor gradient = torch::autograd::grad({cubic_loss(output, cotangent_of(world().rank(), output))}, {input}, {}, true, true)[0];
  (direction_of(world().rank()) * gradient).sum().backward();

  const Tensors inputs = inputs_of_all();
  const Tensors outputs = serial(inputs);
  at::Tensor loss = torch::zeros({}, at::kDouble);
  for (size_t other = 0; other < outputs.size(); ++other)
    loss = loss + cubic_loss(outputs[other], cotangent_of(static_cast<int>(other), outputs[other]));
  const Tensors gradients = torch::autograd::grad({loss}, inputs, {}, true, true, true);
  at::Tensor along = torch::zeros({}, at::kDouble);
  for (size_t other = 0; other < inputs.size(); ++other) {
    if (gradients[other].defined()) along = along + (direction_of(static_cast<int>(other)) * gradients[other]).sum();
  }
  const Tensors seconds = torch::autograd::grad({along}, inputs, {}, true, false, true);
  expect_near(gradient, or_zeros(gradients[rank()], input), second_tolerance);
  expect_near(input.grad(), or_zeros(seconds[rank()], input), second_tolerance);
}

TEST_P(Differentiable, OutlivesTheCommunicatorOfTheUser) {
  const at::Tensor input = input_of(world().rank());
  at::Tensor output;
  {
    const tw::Communicator gone = world().dup();
    output = GetParam().ours(gone, input);
  }
  linear_loss(output, cotangent_of(world().rank(), output)).backward();

  const at::Tensor again = input_of(world().rank());
  const at::Tensor expected = ours(again);
  linear_loss(expected, cotangent_of(world().rank(), expected)).backward();
  EXPECT_TRUE(input.grad().equal(again.grad()));
}

// The input is a view, and the gradient is one number expanded.
TEST_P(Differentiable, TakesAnyStrides) {
  const at::Tensor leaf = random(world().rank(), {3, 2, world().size()}).requires_grad_();
  ours(leaf.permute({2, 1, 0})).sum().backward();

  Tensors leaves;
  Tensors views;
  for (int other = 0; other < world().size(); ++other) {
    leaves.push_back(random(other, {3, 2, world().size()}).requires_grad_());
    views.push_back(leaves.back().permute({2, 1, 0}));
  }
  at::Tensor loss = torch::zeros({}, at::kDouble);
  for (const at::Tensor& output : serial(views)) loss = loss + output.sum();
  loss.backward();
  expect_near(leaf.grad(), or_zeros(leaves[rank()].grad(), leaf), first_tolerance);
}

INSTANTIATE_TEST_SUITE_P(Operations, Differentiable, testing::ValuesIn(cases), [](const auto& of) { return of.param.name; });

// Two layers in tensor-parallel form: each rank's part of a sum, a nonlinear function, and the parts of all ranks.
TEST(DifferentiableGraph, MayHoldSeveral) {
  const at::Tensor input = input_of(world().rank());
  const at::Tensor part = tw::differentiable::reduce_scatter(world(), input.sin(), ReduceOp::sum);
  const at::Tensor whole = tw::differentiable::allgather(world(), part.tanh());
  const at::Tensor other_way = tw::differentiable::alltoall(world(), input.exp());
  linear_loss(whole * other_way, cotangent_of(world().rank(), whole)).backward();

  const Tensors inputs = inputs_of_all();
  Tensors exponentials;
  at::Tensor sines = torch::zeros_like(inputs[0]);
  for (const at::Tensor& x : inputs) {
    sines = sines + x.sin();
    exponentials.push_back(x.exp());
  }
  const at::Tensor exchanged = torch::stack(exponentials).transpose(0, 1);
  at::Tensor loss = torch::zeros({}, at::kDouble);
  for (int rank = 0; rank < world().size(); ++rank) loss = loss + linear_loss(sines.tanh() * exchanged[rank], cotangent_of(rank, sines));
  loss.backward();
  // exp and tanh of numbers in [-4, 4] give terms below 3 * 4: some ten terms with some ten roundings each, below 2 * 100 * 12 u.
  expect_near(input.grad(), inputs[static_cast<size_t>(int{world().rank()})].grad(), 2400 * unit);
}

// Central differences of the sum of all losses, for every element of every rank. With y an average of numbers in [-1, 1] and the loss sum c y^3, the
// third derivative is at most 6. So the truncation error is at most h^2. Rounding sums of P losses of 6 terms each adds P * 6 * P * 6 u / h.
TEST(DifferentiableReduceScatter, AgreesWithFiniteDifferences) {
  constexpr double h = 1e-4;
  const int ranks = world().size();
  const auto loss_of = [](const at::Tensor& input) {
    const at::Tensor output = tw::differentiable::reduce_scatter(world(), input, ReduceOp::average);
    return cubic_loss(output, cotangent_of(world().rank(), output));
  };
  const auto total_at = [&](int rank, int64_t element, double step) {
    const at::Tensor input = input_of(world().rank()).detach();
    if (world().rank() == rank) input.view({-1})[element] += step;
    const at::Tensor loss = loss_of(input);
    tw::allreduce(world(), loss, ReduceOp::sum);
    return loss.item<double>();
  };
  const at::Tensor input = input_of(world().rank());
  loss_of(input).backward();
  const at::Tensor gradient = input.grad().view({-1});
  for (int rank = 0; rank < ranks; ++rank) {
    for (int64_t element = 0; element < input.numel(); ++element) {
      const double slope = (total_at(rank, element, h) - total_at(rank, element, -h)) / (2 * h);
      if (rank == world().rank()) {
        EXPECT_NEAR(gradient[element].item<double>(), slope, h * h + 36 * ranks * ranks * unit / h) << element;
      }
    }
  }
}

TEST(DifferentiableCalls, RefuseWhatDoesNotFit) {
  const int ranks = world().size();
  const auto expect = [](const std::string& text, const std::string& message) { EXPECT_NE(text.find(message), std::string::npos) << text; };
  const at::Tensor input = torch::ones({ranks, 2}, at::kDouble);
  expect(message_of([&] { tw::differentiable::allreduce(world(), input, ReduceOp::max); }), "only sum and average have a derivative here, not max");
  expect(message_of([&] { tw::differentiable::reduce_scatter(world(), input, ReduceOp::product); }),
         "only sum and average have a derivative here, not product");
  for (const at::Tensor& misfit : {torch::ones({ranks + 1, 2}), torch::ones({2 * ranks}), torch::tensor(1.0), torch::ones({0, 2})}) {
    const std::string shape = tw::shape_text(misfit.sizes().vec());
    expect(message_of([&] { tw::differentiable::reduce_scatter(world(), misfit, ReduceOp::sum); }),
           tw::concat("reduce_scatter needs an input of shape [", ranks, ", ...], got ", shape));
    expect(message_of([&] { tw::differentiable::alltoall(world(), misfit); }),
           tw::concat("alltoall needs an input of shape [", ranks, ", ...], got ", shape));
  }
  expect(message_of([&] { tw::differentiable::broadcast(world(), input, tw::Rank(ranks)); }),
         tw::concat("rank ", ranks, " is not a rank of 'world/dup'"));
}

TEST(DifferentiableCalls, RefuseWhatHasNoDerivative) {
  const at::Tensor whole = torch::ones({world().size(), 2}, at::kLong);
  for (const at::Tensor& input : {whole, whole.to(at::kBool), at::Tensor()}) {
    const std::string given = input.defined() ? tw::dtype_name(input.scalar_type()) : "an undefined one";
    for (const Case& of : cases) {
      try {
        of.ours(world(), input);
        ADD_FAILURE() << of.name << " accepts " << given;
      } catch (const tw::ContractError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find(" needs a floating point or complex tensor, got " + given), std::string::npos) << text;
      }
    }
  }
}

}  // namespace differentiable_test
