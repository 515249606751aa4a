// SPDX-License-Identifier: Apache-2.0
// Every operation equals a serial reduction of the gathered inputs. Values are small integers, so that sums are exact in every dtype.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/comm.hpp>

namespace {

using tw::testing::world;

const std::vector<at::ScalarType> reducible{at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kFloat, at::kDouble};
// 0, 1, odd, and around the size (4 MiB) at which large tensors are cut.
const std::vector<int64_t> sizes{0, 1, 7, 1000, (1 << 20) - 1, (1 << 20) + 3};

// What rank `rank` holds: small integers that depend on rank and place.
at::Tensor input_of(int rank, int64_t size, at::ScalarType dtype) { return (torch::arange(size, torch::kLong) * (rank + 1) % 11 + rank).to(dtype); }

at::Tensor reduced(int64_t size, at::ScalarType dtype, tw::ReduceOp op) {
  at::Tensor result = input_of(0, size, at::kDouble);
  for (int rank = 1; rank < world().size(); ++rank) {
    const at::Tensor other = input_of(rank, size, at::kDouble);
    result = op == tw::ReduceOp::sum ? result + other : op == tw::ReduceOp::min ? torch::minimum(result, other) : torch::maximum(result, other);
  }
  return result.to(dtype);
}

TEST(Allreduce, EqualsASerialReduction) {
  for (const auto dtype : reducible) {
    for (const int64_t size : sizes) {
      for (const auto op : {tw::ReduceOp::sum, tw::ReduceOp::min, tw::ReduceOp::max}) {
        const at::Tensor expected = reduced(size, dtype, op);
        at::Tensor blocking = input_of(world().rank(), size, dtype);
        tw::allreduce(world(), blocking, op);
        EXPECT_TRUE(blocking.equal(expected)) << tw::dtype_name(dtype) << " " << size;
        at::Tensor started = input_of(world().rank(), size, dtype);
        tw::iallreduce(world(), started, op).wait();
        EXPECT_TRUE(started.equal(expected)) << tw::dtype_name(dtype) << " " << size;
      }
    }
  }
}

TEST(Allreduce, TakesAnyShape) {
  at::Tensor matrix = torch::full({3, 5}, int{world().rank()}, torch::kFloat);
  tw::allreduce(world(), matrix, tw::ReduceOp::sum);
  const int size = world().size();
  EXPECT_TRUE(matrix.eq(size * (size - 1) / 2).all().item<bool>());
  at::Tensor scalar = torch::tensor(1.0);
  tw::allreduce(world(), scalar, tw::ReduceOp::sum);
  EXPECT_EQ(scalar.item<double>(), size);
}

TEST(Allreduce, RefusesWhatItCannotReduce) {
  EXPECT_THROW(tw::allreduce(world(), at::Tensor(), tw::ReduceOp::sum), tw::ContractError);
  EXPECT_THROW(tw::allreduce(world(), torch::ones({2, 3}).t(), tw::ReduceOp::sum), tw::ContractError);
  try {
    tw::allreduce(world(), torch::ones({2}, torch::kHalf), tw::ReduceOp::sum);
    ADD_FAILURE() << "no exception";
  } catch (const tw::ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("float16 cannot be reduced"), std::string::npos) << error.what();
  }
}

TEST(Broadcast, CopiesTheRootsBytesOfAnyDtype) {
  const auto dtypes = {at::kByte, at::kBool, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexDouble, at::kLong};
  for (const auto dtype : dtypes) {
    for (const int64_t size : sizes) {
      for (int root = 0; root < world().size(); ++root) {
        const at::Tensor expected = input_of(root, size, at::kDouble).to(dtype);
        at::Tensor tensor = world().rank() == root ? expected.clone() : torch::zeros({size}, dtype);
        tw::broadcast(world(), tensor, tw::Rank(root));
        EXPECT_TRUE(tensor.equal(expected)) << tw::dtype_name(dtype) << " " << size;
      }
    }
  }
  at::Tensor started = torch::full({100}, int{world().rank()}, torch::kLong);
  tw::ibroadcast(world(), started, tw::Rank(world().size() - 1)).wait();
  EXPECT_TRUE(started.eq(world().size() - 1).all().item<bool>());
}

TEST(Work, ManyInFlightCompleteInAnyOrder) {
  std::vector<at::Tensor> tensors;
  std::vector<tw::Work> works;
  for (int i = 0; i < 30; ++i) {
    tensors.push_back(torch::full({1000 + i}, i, torch::kLong));
    works.push_back(tw::iallreduce(world(), tensors.back(), tw::ReduceOp::sum));
  }
  for (size_t i = 0; i < works.size(); ++i) works[(i * 7 + 3) % works.size()].wait();
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(tensors[static_cast<size_t>(i)].eq(i * world().size()).all().item<bool>());
}

TEST(Work, KeepsItsTensorAliveAndMayBeWaitedTwice) {
  tw::Work work;
  EXPECT_TRUE(work.test());
  at::Tensor tensor = torch::ones({5000});
  const at::Tensor other_handle = tensor;
  work = tw::iallreduce(world(), tensor, tw::ReduceOp::sum);
  EXPECT_EQ(other_handle.use_count(), 4);  // tensor, other_handle, the work's, the request's
  tensor.reset();
  work.wait();
  work.wait();
  EXPECT_TRUE(work.test());
  EXPECT_EQ(other_handle.use_count(), 1);
  EXPECT_TRUE(other_handle.eq(world().size()).all().item<bool>());
}

TEST(AllgatherStrings, KeepsOrderAndLengths) {
  const auto all = tw::allgather_strings(world(), std::string(static_cast<size_t>(world().rank()) * 3, 'x') + "|");
  ASSERT_EQ(all.size(), static_cast<size_t>(world().size()));
  for (size_t rank = 0; rank < all.size(); ++rank) EXPECT_EQ(all[rank], std::string(rank * 3, 'x') + "|");
}

}  // namespace
