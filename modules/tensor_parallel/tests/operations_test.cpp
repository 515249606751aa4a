// SPDX-License-Identifier: Apache-2.0
// The four operations, compared with their definitions, for sizes that the number of ranks divides and for others. All values are small whole
// numbers, so every sum is exact in either dtype and in any order.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <functional>
#include <tw/tensor_parallel.hpp>

namespace operations_test {

using namespace tw::tensor_parallel;
using tw::testing::message_of;
using tw::testing::world;

int ranks() { return world().size(); }
int64_t begin_of(int rank, int64_t size) { return size * rank / ranks(); }

/// The replicated tensor, as one process would have it: shape [2, size].
at::Tensor whole(int64_t size, at::ScalarType dtype) { return torch::arange(2 * size, dtype).view({2, size}); }

at::Tensor slice_of(const at::Tensor& tensor, int rank) {
  const int64_t size = tensor.size(-1);
  return tensor.narrow(-1, begin_of(rank, size), begin_of(rank + 1, size) - begin_of(rank, size));
}
at::Tensor own_slice_of(const at::Tensor& tensor) { return slice_of(tensor, world().rank()); }

void for_all(const std::function<void(int64_t size, at::ScalarType dtype)>& check) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const int64_t size : {1, 2, 4, 5, 7, 12, 17}) {
      SCOPED_TRACE(tw::concat(size, " ", tw::dtype_name(dtype)));
      check(size, dtype);
    }
  }
}

TEST(Operations, CopyToRanksSumsGradients) {
  for_all([](int64_t size, at::ScalarType dtype) {
    const at::Tensor input = whole(size, dtype).requires_grad_();
    const at::Tensor output = copy_to_ranks(world(), input);
    EXPECT_TRUE(output.equal(input));
    (output * whole(size, dtype) * (world().rank() + 1)).sum().backward();
    EXPECT_TRUE(input.grad().equal(whole(size, dtype) * (ranks() * (ranks() + 1) / 2)));
  });
}

TEST(Operations, ReduceFromRanksSumsAndPassesTheGradientOn) {
  for_all([](int64_t size, at::ScalarType dtype) {
    const at::Tensor input = (whole(size, dtype) * (world().rank() + 1)).requires_grad_();
    const at::Tensor output = reduce_from_ranks(world(), input);
    EXPECT_TRUE(output.equal(whole(size, dtype) * (ranks() * (ranks() + 1) / 2)));
    EXPECT_TRUE(input.equal(whole(size, dtype) * (world().rank() + 1)));
    (output * whole(size, dtype)).sum().backward();
    EXPECT_TRUE(input.grad().equal(whole(size, dtype)));
  });
}

TEST(Operations, GatherFromRanksGivesTheWholeAndTakesTheSliceOfItsGradient) {
  for_all([](int64_t size, at::ScalarType dtype) {
    const at::Tensor input = own_slice_of(whole(size, dtype)).detach().clone().requires_grad_();
    const at::Tensor output = gather_from_ranks(world(), input, size);
    EXPECT_TRUE(output.equal(whole(size, dtype)));
    (output * whole(size, dtype)).sum().backward();
    EXPECT_TRUE(input.grad().equal(own_slice_of(whole(size, dtype))));
  });
}

TEST(Operations, ScatterToRanksGivesTheSliceAndTakesTheWholeGradient) {
  for_all([](int64_t size, at::ScalarType dtype) {
    const at::Tensor input = whole(size, dtype).requires_grad_();
    const at::Tensor output = scatter_to_ranks(world(), input);
    EXPECT_TRUE(output.equal(own_slice_of(whole(size, dtype))));
    (output * own_slice_of(whole(size, dtype))).sum().backward();
    EXPECT_TRUE(input.grad().equal(whole(size, dtype)));
  });
}

// A view as input, and a gradient that is an expanded scalar.
TEST(Operations, TakeAnyStrides) {
  const at::Tensor leaf = torch::arange(5 * 2 * 3, torch::kDouble).view({5, 2, 3}).requires_grad_();
  const at::Tensor view = leaf.permute({2, 1, 0});  // [3, 2, 5]
  const at::Tensor slice = scatter_to_ranks(world(), view);
  EXPECT_TRUE(slice.equal(own_slice_of(view)));
  EXPECT_TRUE(gather_from_ranks(world(), own_slice_of(view), 5).equal(view));
  reduce_from_ranks(world(), copy_to_ranks(world(), view)).sum().backward();  // the sum of P equal tensors
  EXPECT_TRUE(leaf.grad().eq(ranks()).all().item<bool>());
}

TEST(Operations, OutliveTheCommunicatorOfTheUser) {
  const at::Tensor input = torch::ones({3}, torch::requires_grad());
  at::Tensor output;
  {
    const tw::Communicator gone = world().dup();
    output = copy_to_ranks(gone, input);
  }
  output.sum().backward();
  EXPECT_TRUE(input.grad().eq(ranks()).all().item<bool>());
}

TEST(Operations, CanBeDifferentiatedTwice) {
  const at::Tensor x = torch::ones({2, 6}, torch::kDouble).requires_grad_();
  const at::Tensor whole = gather_from_ranks(world(), scatter_to_ranks(world(), x), 6);
  const at::Tensor y = reduce_from_ranks(world(), copy_to_ranks(world(), whole).pow(3));                       // P x^3
  const at::Tensor first = torch::autograd::grad({y.sum()}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];  // 3 P x^2
  const at::Tensor second = torch::autograd::grad({first.sum()}, {x})[0];                                      // 6 P x
  EXPECT_TRUE(first.eq(3 * ranks()).all().item<bool>()) << first;
  EXPECT_TRUE(second.eq(6 * ranks()).all().item<bool>()) << second;
}

// The result of copy_to_ranks() is a view. An in-place change of it or of its input would lose the sum over the ranks.
TEST(Operations, RefuseInPlaceChangesThatWouldBypassTheSum) {
  const at::Tensor x = torch::ones({3}).requires_grad_() * 1;
  EXPECT_ANY_THROW(copy_to_ranks(world(), x).add_(1));
  const at::Tensor y = copy_to_ranks(world(), x);
  x.add_(1);
  EXPECT_ANY_THROW((void)(y * 1));
  world().barrier();
}

TEST(Operations, RecordNothingWithoutGradients) {
  const at::Tensor x = torch::ones({3}).requires_grad_();
  const auto expect_sum = [&] {
    EXPECT_EQ(copy_to_ranks(world(), x).grad_fn(), nullptr);
    const at::Tensor sum = reduce_from_ranks(world(), x);
    EXPECT_FALSE(sum.requires_grad());
    EXPECT_TRUE(sum.eq(ranks()).all().item<bool>());
  };
  {
    const at::NoGradGuard no_grad;
    expect_sum();
  }
  {
    const c10::InferenceMode inference;
    expect_sum();
  }
}

TEST(Operations, RefuseWhatDoesNotFit) {
  const auto expect = [](const std::string& text, const std::string& message) { EXPECT_NE(text.find(message), std::string::npos) << text; };
  const at::Tensor whole_numbers = torch::ones({4}, torch::kLong);
  expect(message_of([&] { copy_to_ranks(world(), whole_numbers); }), "copy_to_ranks needs a floating-point tensor, got int64");
  expect(message_of([&] { reduce_from_ranks(world(), whole_numbers); }), "reduce_from_ranks needs a floating-point tensor, got int64");
  expect(message_of([&] { gather_from_ranks(world(), whole_numbers, 4); }), "gather_from_ranks needs a floating-point tensor, got int64");
  expect(message_of([&] { scatter_to_ranks(world(), at::Tensor()); }), "scatter_to_ranks needs a floating-point tensor, got an undefined tensor");
  expect(message_of([&] { scatter_to_ranks(world(), torch::tensor(1.0)); }), "scatter_to_ranks needs a last dimension to split");
  const int64_t size = 2 * ranks();
  expect(message_of([&] { gather_from_ranks(world(), torch::ones({1, 3}), size); }),
         tw::concat("gather_from_ranks expects 2 of the ", size, " elements of the last dimension on rank ", world().rank(), " of ", ranks(),
                    ", got [1, 3]"));
}

}  // namespace operations_test
