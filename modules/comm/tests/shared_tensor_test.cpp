// SPDX-License-Identifier: Apache-2.0
// Tensors in shared memory. Collectives on them give bitwise the same results as on ordinary ones (which collectives_test compares with a serial
// reduction), wherever the ranks' tensors are. Their memory is released with the last handle.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <tw/comm.hpp>

namespace shared_tensor_test {

using tw::ReduceOp;
using tw::testing::world;

const std::vector<at::ScalarType> all_dtypes{at::kBool, at::kByte,     at::kChar,  at::kShort,  at::kInt,          at::kLong,
                                             at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};

/// The input of rank `rank`: numbers whose sum depends on the order of the additions, if the dtype has such.
at::Tensor values_of(int rank, int64_t count, at::ScalarType dtype) {
  torch::manual_seed(static_cast<uint64_t>(1000 * rank + count));
  if (c10::isFloatingType(dtype) || c10::isComplexType(dtype)) {
    const at::Tensor real = torch::randn({count}, at::kDouble);
    return c10::isComplexType(dtype) ? torch::complex(real, torch::randn({count}, at::kDouble)).to(dtype) : real.to(dtype);
  }
  return torch::randint(0, dtype == at::kBool ? 2 : 100, {count}, at::kLong).to(dtype);
}

/// Returns a copy of `values` in some kind of memory.
using Place = std::function<at::Tensor(const at::Tensor& values)>;

at::Tensor in_ordinary_memory(const at::Tensor& values) { return values.clone(); }

/// Shared memory that holds one tensor at a time. Making it is collective.
class Arena {
 public:
  explicit Arena(const tw::Communicator& comm) : bytes_(tw::shared_tensor(comm, {int64_t{8} << 20}, at::kByte)) {}
  /// A view, `elements` after the start.
  at::Tensor put(const at::Tensor& values, int64_t elements) const {
    const int64_t size = values.element_size();
    at::Tensor view = bytes_.narrow(0, elements * size, values.numel() * size).view(values.scalar_type());
    view.copy_(values);
    return view;
  }
  Place at(int64_t elements) const {
    return [this, elements](const at::Tensor& values) { return put(values, elements); };
  }
  void let_go() { bytes_.reset(); }

 private:
  at::Tensor bytes_;
};

/// One rank's results of every collective that reads shared memory directly, and of reduce, which does not.
std::vector<at::Tensor> results_of(const tw::Communicator& comm, int64_t count, at::ScalarType dtype, ReduceOp op, const Place& place) {
  const int size = comm.size();
  const at::Tensor mine = values_of(comm.rank(), count, dtype);
  const at::Tensor parts = values_of(comm.rank(), count * size, dtype);
  std::vector<at::Tensor> results;
  const auto keep = [&](const at::Tensor& result) { results.push_back(result.clone()); };  // the arena is reused

  const at::Tensor reduced = place(mine);
  tw::allreduce(comm, reduced, op);
  keep(reduced);

  const at::Tensor sent = place(mine);
  const int root = static_cast<int>(count) % size;
  tw::broadcast(comm, sent, tw::Rank(root));
  keep(sent);

  const at::Tensor to_root = place(mine);
  tw::reduce(comm, to_root, op, tw::Rank(root));
  keep(to_root);

  const at::Tensor input = place(mine);
  const at::Tensor gathered = torch::empty({size, count}, dtype);
  tw::allgather(comm, input, gathered);
  keep(gathered);
  EXPECT_TRUE(input.equal(mine));

  const at::Tensor whole = place(parts);
  const at::Tensor part = torch::empty({count}, dtype);
  tw::reduce_scatter(comm, whole, part, op);
  keep(part);
  EXPECT_TRUE(whole.equal(parts));
  return results;
}

void expect_equal(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected, const std::string& what) {
  const std::vector<std::string> names{"allreduce", "broadcast", "reduce", "allgather", "reduce_scatter"};
  for (size_t i = 0; i < names.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << names[i] << ", " << what;
}

TEST(SharedTensor, IsAnOrdinaryTensorOfZeros) {
  for (const auto dtype : all_dtypes) {
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {0}, {3, 4}, {2, 0, 5}, {100, 100}}) {
      const at::Tensor tensor = tw::shared_tensor(world(), shape, dtype);
      EXPECT_EQ(tensor.sizes(), at::IntArrayRef(shape));
      EXPECT_EQ(tensor.scalar_type(), dtype);
      EXPECT_TRUE(tensor.is_contiguous() && tensor.is_cpu() && !tensor.requires_grad());
      EXPECT_TRUE(tensor.equal(torch::zeros(shape, dtype)));
    }
  }
  for (int turn = 0; turn < 3; ++turn) {  // also in memory that an earlier one used
    const at::Tensor tensor = tw::shared_tensor(world(), {5000}, at::kInt);
    EXPECT_FALSE(tensor.any().item<bool>());
    tensor.fill_(7);
  }
}

TEST(SharedTensor, BelongsToItsRankAlone) {
  const at::Tensor tensor = tw::shared_tensor(world(), {3000}, at::kInt);
  tensor.fill_(int{world().rank()});
  world().barrier();  // all have written
  EXPECT_TRUE(tensor.eq(int{world().rank()}).all().item<bool>());
}

TEST(SharedTensor, GivesTheResultsOfOrdinaryOnesForEveryDtypeAtEveryOffset) {
  const int rank = world().rank();
  const Arena arena(world());
  for (const auto dtype : all_dtypes) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::logical_and, ReduceOp::bitwise_xor}) {
      if (!tw::why_undefined(op, tw::element_type(dtype)).empty()) continue;
      for (const int64_t count : {0, 1, 7, 1000, 30011}) {
        const auto expected = results_of(world(), count, dtype, op, in_ordinary_memory);
        const std::string what = tw::concat(tw::dtype_name(dtype), " [", count, "] ", tw::name_of(op));
        expect_equal(results_of(world(), count, dtype, op, arena.at(0)), expected, what);
        expect_equal(results_of(world(), count, dtype, op, arena.at(3)), expected, what + " at 3");
        expect_equal(results_of(world(), count, dtype, op, arena.at(1000 - 17 * rank)), expected, what + " at 1000 - 17 r");
      }
    }
  }
}

TEST(SharedTensor, GivesThemWhereSomeRanksUseOrdinaryOnes) {
  const Arena arena(world());
  for (const int64_t count : {5, 3000, 200003}) {
    const auto expected = results_of(world(), count, at::kFloat, ReduceOp::sum, in_ordinary_memory);
    for (int mask = 0; mask < 1 << world().size(); ++mask) {
      const bool shares = ((mask >> world().rank()) & 1) != 0;
      const auto got = results_of(world(), count, at::kFloat, ReduceOp::sum, shares ? arena.at(40) : Place(in_ordinary_memory));
      expect_equal(got, expected, tw::concat("[", count, "], shared on ranks of mask ", mask));
    }
  }
}

TEST(SharedTensor, GivesThemWhereRanksUseDifferentOnes) {
  Arena one(world());
  Arena other(world());
  for (const int64_t count : {5, 100003}) {
    const auto expected = results_of(world(), count, at::kFloat, ReduceOp::sum, in_ordinary_memory);
    expect_equal(results_of(world(), count, at::kFloat, ReduceOp::sum, world().rank() == 0 ? one.at(0) : other.at(0)), expected, "first in another");
    expect_equal(results_of(world(), count, at::kFloat, ReduceOp::sum, world().rank() % 2 == 0 ? one.at(8) : other.at(2)), expected, "by turns");
  }
  // The case in which no rank has mapped the others' arena.
  const bool first = world().rank() == 0;
  (first ? other : one).let_go();
  const auto expected = results_of(world(), 5000, at::kFloat, ReduceOp::sum, in_ordinary_memory);
  expect_equal(results_of(world(), 5000, at::kFloat, ReduceOp::sum, first ? one.at(0) : other.at(0)), expected, "the only one left");
}

TEST(SharedTensor, GivesThemWhereRanksHaveLetGoOfTheirs) {
  const auto expected = results_of(world(), 5000, at::kDouble, ReduceOp::sum, in_ordinary_memory);
  Arena first(world());
  if (world().rank() == 0) first.let_go();
  const auto mixed = results_of(world(), 5000, at::kDouble, ReduceOp::sum, world().rank() == 0 ? Place(in_ordinary_memory) : first.at(0));
  expect_equal(mixed, expected, "gone on rank 0");
  const Arena second(world());  // ranks still agree on the numbering
  expect_equal(results_of(world(), 5000, at::kDouble, ReduceOp::sum, second.at(0)), expected, "a new one");
}

TEST(SharedTensor, GivesThemInPlace) {
  const int size = world().size();
  for (const auto dtype : all_dtypes) {
    for (const int64_t count : {1, 1000, 30011}) {
      const at::Tensor shared = tw::shared_tensor(world(), {size, count}, dtype);
      const at::Tensor mine = shared[world().rank()];
      const std::string what = tw::concat(tw::dtype_name(dtype), " [", count, "]");
      const ReduceOp op = dtype == at::kBool ? ReduceOp::logical_xor : ReduceOp::sum;

      const at::Tensor parts = values_of(world().rank(), count * size, dtype).view({size, count});
      const at::Tensor reduced = torch::empty({count}, dtype);
      tw::reduce_scatter(world(), parts, reduced, op);
      const at::Tensor expected = parts.clone();
      expected[world().rank()] = reduced;
      shared.copy_(parts);
      tw::reduce_scatter(world(), shared, mine, op);
      EXPECT_TRUE(shared.equal(expected)) << what;

      shared.zero_();
      mine.copy_(reduced);
      tw::allgather(world(), mine, shared);
      const at::Tensor gathered = torch::empty({size, count}, dtype);
      tw::allgather(world(), reduced, gathered);
      EXPECT_TRUE(shared.equal(gathered)) << what;
    }
  }
}

TEST(SharedTensor, GivesThemForStridesAndGroups) {
  const at::Tensor shared = tw::shared_tensor(world(), {60, 50}, at::kFloat);
  const at::Tensor values = values_of(world().rank(), 3000, at::kFloat).view({60, 50});
  shared.copy_(values);
  const at::Tensor ordinary = values.clone();
  tw::allreduce(world(), shared.t().slice(0, 1, 50, 3), ReduceOp::sum);
  tw::allreduce(world(), ordinary.t().slice(0, 1, 50, 3), ReduceOp::sum);
  EXPECT_TRUE(shared.equal(ordinary));

  const at::Tensor another = values.clone();
  tw::allreduce(world(), std::vector<at::Tensor>{shared, another}, ReduceOp::sum);
  tw::allreduce(world(), std::vector<at::Tensor>{ordinary, values}, ReduceOp::sum);
  EXPECT_TRUE(shared.equal(ordinary));
  EXPECT_TRUE(another.equal(values));
}

TEST(SharedTensor, ManyAreInFlightAndWaitedForInAnyOrder) {
  const int64_t count = 100003;
  std::vector<at::Tensor> shared;
  std::vector<at::Tensor> ordinary;
  for (int i = 0; i < 3; ++i) {
    shared.push_back(tw::shared_tensor(world(), {count}, at::kFloat));
    ordinary.push_back(values_of(world().rank() + 10 * i, count, at::kFloat));
    shared.back().copy_(ordinary.back());
  }
  const auto begin = [](const std::vector<at::Tensor>& tensors) {
    std::vector<tw::Work> works;
    works.push_back(tw::iallreduce(world(), tensors[0], ReduceOp::sum));
    works.push_back(tw::ibroadcast(world(), tensors[1], tw::Rank(world().size() - 1)));
    works.push_back(tw::iallreduce(world(), tensors[2], ReduceOp::max));
    return works;
  };
  std::vector<tw::Work> works = begin(shared);
  std::vector<tw::Work> expected = begin(ordinary);
  tw::wait_all(expected);
  for (const size_t i : {2, 0, 1}) {
    works[i].wait();
    EXPECT_TRUE(shared[i].equal(ordinary[i])) << i;
  }
}

TEST(SharedTensor, OutlivesItsCommunicator) {
  at::Tensor tensor;
  {
    const tw::Communicator gone = world().dup();
    tensor = tw::shared_tensor(gone, {4000}, at::kFloat);
    tensor.fill_(1);
    tw::allreduce(gone, tensor, ReduceOp::sum);
  }
  EXPECT_TRUE(tensor.eq(world().size()).all().item<bool>());
  tensor.fill_(2);
  tw::allreduce(world(), tensor, ReduceOp::sum);  // this communicator treats it as an ordinary one
  EXPECT_TRUE(tensor.eq(2 * world().size()).all().item<bool>());
}

/// The number of Torchweave's shared-memory mappings in this process: of `bytes`, or all.
int64_t mappings(int64_t bytes = 0) {
  int64_t found = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:torchweave") == std::string::npos) continue;
    const size_t dash = line.find('-');
    const int64_t size = std::stoll(line.substr(dash + 1), nullptr, 16) - std::stoll(line, nullptr, 16);
    if (bytes == 0 || size == bytes) ++found;
  }
  return found;
}

// The mapping of a tensor of this many bytes, for all ranks of this node: each share has whole pages.
int64_t mapped_bytes(int64_t bytes) { return (bytes + 4095) / 4096 * 4096 * world().size(); }

constexpr int64_t some_floats = 777777;  // no other mapping has this size

TEST(SharedTensor, ItsMemoryGoesWithTheLastHandle) {
  const int64_t bytes = mapped_bytes(4 * some_floats);
  ASSERT_EQ(mappings(bytes), 0);
  at::Tensor tensor = tw::shared_tensor(world(), {some_floats}, at::kFloat);
  EXPECT_EQ(mappings(bytes), 1);
  at::Tensor view = tensor.narrow(0, 1000, 10);
  tensor.reset();
  EXPECT_EQ(mappings(bytes), 1);
  view.reset();
  EXPECT_EQ(mappings(bytes), 0);
}

TEST(SharedTensor, AnOperationInFlightKeepsIt) {
  const int64_t bytes = mapped_bytes(4 * some_floats);
  at::Tensor tensor = tw::shared_tensor(world(), {some_floats}, at::kFloat);
  const at::Tensor gate = torch::zeros({1});
  const bool first = world().rank() == 0;
  if (!first) tw::recv(world(), gate, tw::Rank(0));  // waits until rank 0 has started and released its tensor
  tw::Work work = tw::iallreduce(world(), tensor, ReduceOp::sum);
  tensor.reset();
  if (first) {
    EXPECT_EQ(mappings(bytes), world().size() == 1 ? 0 : 1);  // a single rank has finished already
    for (int other = 1; other < world().size(); ++other) tw::send(world(), gate, tw::Rank(other));
  }
  work.wait();
  EXPECT_EQ(mappings(bytes), 0);
}

TEST(SharedTensor, TwoHundredLeaveNothingBehind) {
  const auto open_files = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  const int64_t mapped = mappings();
  const auto files = open_files();
  for (int i = 0; i < 200; ++i) {
    const at::Tensor tensor = tw::shared_tensor(world(), {1000 + i}, at::kFloat);
    tensor.fill_(1);
    if (i % 20 == 0) tw::allreduce(world(), tensor, ReduceOp::sum);
  }
  EXPECT_EQ(mappings(), mapped);
  EXPECT_LT(open_files(), files + 20);  // MPI may have opened some files
}

TEST(SharedTensor, NamesTheSizeOnEveryRankWhereThereIsNotEnough) {
  const int64_t bytes = int64_t{1} << 52;  // more than an address space
  try {
    tw::shared_tensor(world(), {bytes}, at::kByte);
    ADD_FAILURE() << "no exception";
  } catch (const tw::Error& error) {
    EXPECT_NE(std::string(error.what()).find(tw::concat("shared memory of ", bytes * world().size(), " bytes cannot be allocated")),
              std::string::npos)
        << error.what();
  }
  const Arena arena(world());  // works afterwards
  const auto expected = results_of(world(), 100, at::kFloat, ReduceOp::sum, in_ordinary_memory);
  expect_equal(results_of(world(), 100, at::kFloat, ReduceOp::sum, arena.at(0)), expected, "afterwards");
}

TW_TEST_ON(SharedTensor, RefusesShapesAndDtypesThatDiffer, {.least = 2}) {
  const bool first = world().rank() == 0;
  using Make = std::function<at::Tensor(const tw::Communicator&, at::IntArrayRef, c10::ScalarType)>;
  for (const auto& make : {Make(tw::shared_tensor), Make(tw::node_tensor)}) {
    EXPECT_THROW((void)make(world(), {first ? 4 : 1 << 20}, at::kFloat), tw::ContractError);
    EXPECT_THROW((void)make(world(), {first ? 1 << 20 : 4}, at::kFloat), tw::ContractError);
    EXPECT_THROW((void)make(world(), {4}, first ? at::kFloat : at::kInt), tw::ContractError);
  }
}

TEST(NodeTensor, IsOneTensorOfZerosForAllRanksOfTheNode) {
  for (const auto dtype : all_dtypes) {
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {0}, {3, 4}, {100, 100}}) {
      const at::Tensor tensor = tw::node_tensor(world(), shape, dtype);
      EXPECT_TRUE(tensor.is_contiguous() && tensor.is_cpu() && !tensor.requires_grad());
      EXPECT_TRUE(tensor.equal(torch::zeros(shape, dtype)));
    }
  }
  const at::Tensor table = tw::node_tensor(world(), {world().size(), 3000}, at::kInt);
  for (int turn = 0; turn < 5; ++turn) {
    table[world().rank()].fill_(10 * turn + int{world().rank()});  // each rank writes one row
    tw::barrier(world());
    for (int other = 0; other < world().size(); ++other) EXPECT_TRUE(table[other].eq(10 * turn + other).all().item<bool>());
    tw::barrier(world());  // all have read
  }
}

TEST(NodeTensor, TakesItsMemoryOnceAndReturnsItWithTheLastHandle) {
  const int64_t bytes = (4 * some_floats + 4095) / 4096 * 4096;
  at::Tensor tensor = tw::node_tensor(world(), {some_floats}, at::kFloat);
  EXPECT_EQ(mappings(bytes), 1);
  tensor.reset();
  EXPECT_EQ(mappings(bytes), 0);
}

}  // namespace shared_tensor_test
