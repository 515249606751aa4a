// SPDX-License-Identifier: Apache-2.0
// What is compared is comparable: Torchweave's call and MPI's do the same to the same data, which has the size that is reported.
#include "bench_operations.hpp"

#include <torch/torch.h>

#include "bench_figures.hpp"
#include "mpi_test.hpp"

namespace {
using tw::Collective;
using tw::testing::world;
using tw::tool::BenchData;

// Another on every rank, and never the sum of others.
at::Tensor random_floats(int64_t floats) {
  torch::manual_seed(static_cast<uint64_t>(17 + world().rank()));
  return torch::rand({floats});
}

void for_all_operations_and_sizes(const std::function<void(Collective operation, int64_t bytes)>& check) {
  for (const Collective operation : tw::tool::bench_operations()) {
    for (const int64_t bytes : tw::tool::message_sizes(operation, 8, 100000, world().size())) {
      SCOPED_TRACE(tw::concat(tw::tool::bench_name(operation), ", ", bytes, " bytes"));
      check(operation, bytes);
    }
  }
}

TEST(BenchOperations, HaveTheSizeThatIsReported) {
  for_all_operations_and_sizes([](Collective operation, int64_t bytes) {
    const BenchData data = tw::tool::make_bench_data(operation, bytes, world().size(), random_floats);
    const auto size = [](const at::Tensor& tensor) { return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0; };
    EXPECT_EQ(std::max(size(data.input), size(data.output)), bytes);
    const int64_t part = bytes / world().size();
    if (operation == Collective::allgather) {
      EXPECT_EQ(size(data.input), part);
    } else if (operation == Collective::reduce_scatter) {
      EXPECT_EQ(size(data.output), part);
    } else {
      EXPECT_EQ(size(data.input), bytes);
      EXPECT_EQ(size(data.output), operation == Collective::alltoall || operation == Collective::send ? bytes : 0);
    }
  });
}

// Sums over up to 3 ranks of numbers below 1 may be added in another order: off by at most 2 additions' roundings of at most 3 * 2^-24 on each
// side.
TEST(BenchOperations, AreThoseOfMpi) {
  for_all_operations_and_sizes([](Collective operation, int64_t bytes) {
    const BenchData ours = tw::tool::make_bench_data(operation, bytes, world().size(), random_floats);
    const BenchData mpi = tw::tool::make_bench_data(operation, bytes, world().size(), random_floats);
    const at::Tensor before = ours.input.defined() ? ours.input.clone() : at::Tensor();
    for (const at::Tensor& output : {ours.output, mpi.output}) {
      if (output.defined()) output.fill_(-1);
    }
    tw::tool::call_torchweave(world(), operation, ours);
    tw::tool::call_mpi(world(), operation, mpi);
    if (operation == Collective::barrier) return;
    EXPECT_TRUE(torch::allclose(ours.input, mpi.input, 0, 12 * 0x1p-24));
    if (ours.output.defined()) {
      EXPECT_TRUE(torch::allclose(ours.output, mpi.output, 0, 12 * 0x1p-24));
      const bool left_out = operation == Collective::send && world().rank() == world().size() - 1 && world().size() % 2 == 1;
      EXPECT_EQ(ours.output.eq(-1).any().item<bool>(), left_out);
    }

    // Something has happened to the input where it is the output too.
    const bool received = operation == Collective::broadcast && world().rank() != 0;
    const bool reduced = (operation == Collective::allreduce || (operation == Collective::reduce && world().rank() == 0)) && world().size() > 1;
    EXPECT_EQ(mpi.input.equal(before), !(received || reduced));
  });
}

}  // namespace
