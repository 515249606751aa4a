// SPDX-License-Identifier: Apache-2.0
// Every collective x backend x dtype x size equals a serial reduction of the inputs in float64.
//
// Values are small integers, so that all sums and products below are exact in every dtype and compared for equality. (float16 holds integers up to
// 2048, bfloat16 up to 256.) Averages divide an exact sum by the number of ranks, once: the result is the float64 quotient rounded to the dtype. But
// 16-bit floats divide in float32 first; rounding twice may differ from rounding once by one unit in the last place of the dtype.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <tuple>
#include <tw/comm.hpp>

namespace collectives_test {

using tw::ReduceOp;
using tw::testing::device;
using tw::testing::on_device;
using tw::testing::world;

const std::vector<at::ScalarType> all_dtypes{at::kBool, at::kByte,     at::kChar,  at::kShort,  at::kInt,          at::kLong,
                                             at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};

const std::vector<ReduceOp> all_ops{ReduceOp::sum,         ReduceOp::average,     ReduceOp::min,        ReduceOp::max,
                                    ReduceOp::product,     ReduceOp::logical_and, ReduceOp::logical_or, ReduceOp::logical_xor,
                                    ReduceOp::bitwise_and, ReduceOp::bitwise_or,  ReduceOp::bitwise_xor};

// Large sizes for some dtypes only, or the test would take many minutes; `make accept ONLY=comm` runs them all.
bool every_size() { return std::getenv("TW_TEST_EVERY_SIZE") != nullptr; }

int largest_power(at::ScalarType dtype) {
  if (!device().is_cpu()) return 11;  // large tensors travel as they do from the CPU
  if (every_size()) return 23;
  if (dtype == at::kFloat) return 21;
  return dtype == at::kDouble || dtype == at::kHalf ? 16 : 11;
}

// Large tensors use only sums and averages; smaller ones use every op.
bool is_tried(ReduceOp op, int64_t count) {
  const int64_t largest = every_size() ? 100000 : 5000;
  return count <= largest || op == ReduceOp::sum || op == ReduceOp::average;
}

// 0, 1, odd, and 2^i + random below 128 for i = 8..`largest_power`; the same on all ranks.
std::vector<int64_t> sizes_up_to(int largest_power) {
  std::mt19937 random(7);
  std::vector<int64_t> sizes{0, 1, 7};
  for (int i = 8; i <= largest_power; ++i) sizes.push_back((int64_t{1} << i) + static_cast<int64_t>(random() % 128));
  return sizes;
}

bool is_defined(ReduceOp op, at::ScalarType dtype) { return tw::why_undefined(op, tw::element_type(dtype)).empty(); }

// Inputs repeat every 1021 elements (a prime: no chunk or part is a multiple of it), so that millions of expected values are computed quickly.
constexpr int64_t period = 1021;

at::Tensor repeat(const at::Tensor& pattern, int64_t size) { return pattern.repeat({size / period + 1}).narrow(0, 0, size).clone(); }

// Random integers, different on each rank: 0 to 3, and 0 or 1 from the fifth rank on, so that products stay below 82.
at::Tensor draw_pattern(int rank, at::ScalarType dtype) {
  std::mt19937 random(static_cast<unsigned>(rank));
  std::vector<int64_t> numbers(period);
  for (int64_t& number : numbers) number = static_cast<int64_t>(random() % (rank < 4 ? 4 : 2));
  const at::Tensor pattern = torch::tensor(numbers);
  return (dtype == at::kBool ? pattern.gt(1) : pattern).to(dtype);
}

// Thousands of calls have the same few patterns.
const at::Tensor& pattern_of(int rank, at::ScalarType dtype) {
  static std::map<std::pair<int, at::ScalarType>, at::Tensor> known;
  at::Tensor& pattern = known[{rank, dtype}];
  if (!pattern.defined()) pattern = draw_pattern(rank, dtype);
  return pattern;
}

/// The input of rank `rank`.
at::Tensor input_of(int rank, int64_t size, at::ScalarType dtype) { return repeat(pattern_of(rank, dtype), size).to(device()); }

at::Tensor to_float64(const at::Tensor& tensor) { return tensor.is_complex() ? tensor.to(at::kComplexDouble) : tensor.to(at::kDouble); }

at::Tensor combine(const at::Tensor& a, const at::Tensor& b, ReduceOp op) {
  const auto whole = [](const at::Tensor& t) { return t.to(at::kLong); };
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return a + b;
    case ReduceOp::product: return a * b;
    case ReduceOp::min: return torch::minimum(a, b);
    case ReduceOp::max: return torch::maximum(a, b);
    case ReduceOp::logical_and: return torch::logical_and(a, b).to(at::kDouble);
    case ReduceOp::logical_or: return torch::logical_or(a, b).to(at::kDouble);
    case ReduceOp::logical_xor: return torch::logical_xor(a, b).to(at::kDouble);
    case ReduceOp::bitwise_and: return whole(a).bitwise_and(whole(b)).to(at::kDouble);
    case ReduceOp::bitwise_or: return whole(a).bitwise_or(whole(b)).to(at::kDouble);
    default: return whole(a).bitwise_xor(whole(b)).to(at::kDouble);
  }
}

bool is_logical(ReduceOp op) { return op == ReduceOp::logical_and || op == ReduceOp::logical_or || op == ReduceOp::logical_xor; }

at::Tensor reduce_patterns(at::ScalarType dtype, ReduceOp op, int ranks) {
  at::Tensor result = to_float64(pattern_of(0, dtype));
  if (is_logical(op)) result = result.ne(0).to(at::kDouble);
  for (int rank = 1; rank < ranks; ++rank) result = combine(result, to_float64(pattern_of(rank, dtype)), op);
  if (op == ReduceOp::average) result = result / ranks;
  return result.to(dtype);
}

/// The serial reduction of the inputs of `ranks` ranks.
at::Tensor reduced(int64_t size, at::ScalarType dtype, ReduceOp op, int ranks) {
  static std::map<std::tuple<at::ScalarType, ReduceOp, int>, at::Tensor> known;
  at::Tensor& pattern = known[{dtype, op, ranks}];
  if (!pattern.defined()) pattern = reduce_patterns(dtype, op, ranks);
  return repeat(pattern, size).to(device());
}

// See the top of the file.
bool is_result(const at::Tensor& got, const at::Tensor& expected, ReduceOp op) {
  if (op != ReduceOp::average || got.numel() == 0) return got.equal(expected);
  const double unit = got.scalar_type() == at::kHalf                                              ? 0x1p-10
                      : got.scalar_type() == at::kBFloat16                                        ? 0x1p-7
                      : got.scalar_type() == at::kFloat || got.scalar_type() == at::kComplexFloat ? 0x1p-23
                                                                                                  : 0x1p-52;
  return torch::allclose(to_float64(got), to_float64(expected), unit, 0);
}

/// Runs on every backend in turn.
class Collectives : public testing::TestWithParam<const char*> {
 protected:
  Collectives() : comm_(world().dup()) {
    tw::choose_backend(comm_, std::string(GetParam()));
    if (has("ipc")) tw::choose_backend(comm_, "ipc");  // also if ranks share a device, where small calls use another backend by default
  }
  /// A backend that does nothing here, such as the hierarchical one on a single host, would repeat the tests of the others.
  void SetUp() override {
    const auto all = tw::availability(comm());
    const auto is_used = [](const tw::Availability& entry) { return entry.chosen && !entry.on_device && entry.backend == GetParam(); };
    if (std::none_of(all.begin(), all.end(), is_used)) GTEST_SKIP() << "this backend does nothing here";
  }

  const tw::Communicator& comm() const { return comm_; }
  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }

  bool has(std::string_view backend) const {
    const auto all = tw::availability(comm());
    return std::any_of(all.begin(), all.end(), [&](const tw::Availability& entry) { return entry.backend == backend && entry.why_not.empty(); });
  }

  /// Calls `check(dtype, size)` if this backend performs `collective`.
  void for_dtypes_and_sizes(tw::Collective collective, const std::function<void(at::ScalarType, int64_t)>& check) const {
    const auto all = tw::availability(comm());
    const auto does_it = [&](const tw::Availability& entry) {
      return entry.collective == collective && !entry.on_device && entry.chosen && entry.backend == GetParam();
    };
    if (std::none_of(all.begin(), all.end(), does_it)) GTEST_SKIP() << "another backend does it";
    const auto takes_device = [&](const tw::Availability& entry) {
      return entry.collective == collective && entry.on_device && entry.chosen && entry.backend != "staged";
    };
    if (!device().is_cpu() && std::any_of(all.begin(), all.end(), takes_device)) {  // the result does not depend on the host's backend: one is enough
      const auto can = [&](const tw::Availability& entry) { return entry.collective == collective && !entry.on_device && entry.why_not.empty(); };
      if (std::find_if(all.begin(), all.end(), can)->backend != GetParam()) GTEST_SKIP() << "a device's backend does it";
    }
    for (const auto dtype : all_dtypes) {
      for (const int64_t size : sizes_up_to(largest_power(dtype))) check(dtype, size);
    }
  }

 private:
  tw::Communicator comm_;
};

std::string label(at::ScalarType dtype, int64_t size, ReduceOp op = ReduceOp::sum) {
  return tw::concat(tw::dtype_name(dtype), " [", size, "] ", tw::name_of(op));
}

TEST_P(Collectives, AllreduceEqualsASerialReduction) {
  for_dtypes_and_sizes(tw::Collective::allreduce, [&](at::ScalarType dtype, int64_t count) {
    for (const ReduceOp op : all_ops) {
      if (!is_defined(op, dtype) || !is_tried(op, count)) continue;
      const at::Tensor tensor = input_of(rank(), count, dtype);
      tw::allreduce(comm(), tensor, op);
      EXPECT_TRUE(is_result(tensor, reduced(count, dtype, op, size()), op)) << label(dtype, count, op);
    }
  });
}

TEST_P(Collectives, ReduceChangesTheRootAlone) {
  for_dtypes_and_sizes(tw::Collective::reduce, [&](at::ScalarType dtype, int64_t count) {
    if (count > 100000 && !every_size()) return;
    const int root = static_cast<int>(count) % size();
    for (const ReduceOp op : all_ops) {
      if (!is_defined(op, dtype) || !is_tried(op, count)) continue;
      const at::Tensor tensor = input_of(rank(), count, dtype);
      tw::reduce(comm(), tensor, op, tw::Rank(root));
      if (rank() == root) {
        EXPECT_TRUE(is_result(tensor, reduced(count, dtype, op, size()), op)) << label(dtype, count, op);
      } else {
        EXPECT_TRUE(tensor.equal(input_of(rank(), count, dtype))) << label(dtype, count, op);
      }
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesEveryRankItsPart) {
  for_dtypes_and_sizes(tw::Collective::reduce_scatter, [&](at::ScalarType dtype, int64_t count) {
    for (const ReduceOp op : all_ops) {
      if (!is_defined(op, dtype) || !is_tried(op, count)) continue;
      const at::Tensor input = input_of(rank(), count * size(), dtype).view({size(), count});
      const at::Tensor before = input.clone();
      const at::Tensor output = torch::empty({count}, on_device(dtype));
      tw::reduce_scatter(comm(), input, output, op);
      const at::Tensor expected = reduced(count * size(), dtype, op, size()).view({size(), count})[rank()];
      EXPECT_TRUE(is_result(output, expected, op)) << label(dtype, count, op);
      EXPECT_TRUE(input.equal(before)) << label(dtype, count, op);
    }
  });
}

TEST_P(Collectives, AllgatherConcatenates) {
  for_dtypes_and_sizes(tw::Collective::allgather, [&](at::ScalarType dtype, int64_t count) {
    const at::Tensor input = input_of(rank(), count, dtype);
    const at::Tensor output = torch::empty({size(), count}, on_device(dtype));
    tw::allgather(comm(), input, output);
    for (int other = 0; other < size(); ++other) EXPECT_TRUE(output[other].equal(input_of(other, count, dtype))) << label(dtype, count);
    EXPECT_TRUE(input.equal(input_of(rank(), count, dtype))) << label(dtype, count);
  });
}

TEST_P(Collectives, ReduceScatterMayLeaveItsResultInItsInput) {
  for_dtypes_and_sizes(tw::Collective::reduce_scatter, [&](at::ScalarType dtype, int64_t count) {
    if (count > 300000 && !every_size()) return;
    for (const ReduceOp op : all_ops) {
      if (!is_defined(op, dtype) || !is_tried(op, count)) continue;
      const at::Tensor input = input_of(rank(), count * size(), dtype).view({size(), count});
      const at::Tensor expected = input.clone();
      expected[rank()] = reduced(count * size(), dtype, op, size()).view({size(), count})[rank()];
      tw::reduce_scatter(comm(), input, input[rank()], op);
      EXPECT_TRUE(is_result(input, expected, op)) << label(dtype, count, op);
    }
  });
}

TEST_P(Collectives, AllgatherMayFindItsInputInItsOutput) {
  for_dtypes_and_sizes(tw::Collective::allgather, [&](at::ScalarType dtype, int64_t count) {
    if (count > 300000 && !every_size()) return;
    const at::Tensor output = torch::zeros({size(), count}, on_device(dtype));
    output[rank()] = input_of(rank(), count, dtype);
    tw::allgather(comm(), output[rank()], output);
    for (int other = 0; other < size(); ++other) EXPECT_TRUE(output[other].equal(input_of(other, count, dtype))) << label(dtype, count);
  });
}

TEST_P(Collectives, BroadcastCopiesTheRoots) {
  for_dtypes_and_sizes(tw::Collective::broadcast, [&](at::ScalarType dtype, int64_t count) {
    for (int root = 0; root < size(); ++root) {
      const at::Tensor tensor = input_of(rank(), count, dtype);
      tw::broadcast(comm(), tensor, tw::Rank(root));
      EXPECT_TRUE(tensor.equal(input_of(root, count, dtype))) << label(dtype, count);
    }
  });
}

TEST_P(Collectives, AlltoallTransposes) {
  for_dtypes_and_sizes(tw::Collective::alltoall, [&](at::ScalarType dtype, int64_t count) {
    const at::Tensor input = input_of(rank(), count * size(), dtype).view({size(), count});
    const at::Tensor before = input.clone();
    const at::Tensor output = torch::empty({size(), count}, on_device(dtype));
    tw::alltoall(comm(), input, output);
    for (int other = 0; other < size(); ++other) {
      EXPECT_TRUE(output[other].equal(input_of(other, count * size(), dtype).view({size(), count})[rank()])) << label(dtype, count);
    }
    EXPECT_TRUE(input.equal(before)) << label(dtype, count);
  });
}

TEST_P(Collectives, BarrierLetsNobodyThroughAlone) {
  // The last rank arrived before the first left. All ranks must read the same clock; on the hosts of hosts.sh the steady clock differs.
  const auto now = [] { return static_cast<int64_t>(std::chrono::system_clock::now().time_since_epoch().count()); };
  constexpr int64_t turns = 200;
  const at::Tensor came = torch::empty({turns}, torch::kLong);
  const at::Tensor left = torch::empty({turns}, torch::kLong);
  for (int64_t turn = 0; turn < turns; ++turn) {
    came[turn] = now();
    tw::barrier(comm());
    left[turn] = now();
  }
  tw::allreduce(comm(), came, ReduceOp::max);
  tw::allreduce(comm(), left, ReduceOp::min);
  EXPECT_TRUE(came.le(left).all().item<bool>());
}

TEST_P(Collectives, TakeNonContiguousZeroDimensionalAndExpandedTensors) {
  const at::Tensor matrix = input_of(rank(), 35, at::kFloat).view({5, 7});
  const at::Tensor transposed = matrix.clone().t();
  tw::allreduce(comm(), transposed, ReduceOp::sum);
  EXPECT_TRUE(transposed.equal(reduced(35, at::kFloat, ReduceOp::sum, size()).view({5, 7}).t()));

  const at::Tensor whole = matrix.clone();
  tw::broadcast(comm(), whole.slice(/*dim=*/1, 1, 7, 2), tw::Rank(size() - 1));  // every second column
  EXPECT_TRUE(whole.slice(1, 1, 7, 2).equal(input_of(size() - 1, 35, at::kFloat).view({5, 7}).slice(1, 1, 7, 2)));
  EXPECT_TRUE(whole.slice(1, 0, 7, 2).equal(matrix.slice(1, 0, 7, 2)));

  const at::Tensor scalar = torch::tensor(1.0).to(device());
  tw::allreduce(comm(), scalar, ReduceOp::sum);
  EXPECT_EQ(scalar.item<double>(), size());

  const at::Tensor gathered = torch::zeros({7, size()}, on_device()).t();  // strided output
  tw::allgather(comm(), torch::full({1}, int{rank()}, on_device()).expand({7}), gathered);
  for (int other = 0; other < size(); ++other) EXPECT_TRUE(gathered[other].eq(other).all().item<bool>());

  const at::Tensor conjugated = torch::full({3}, c10::complex<double>(1, rank()), on_device(torch::kComplexDouble)).conj();
  tw::allreduce(comm(), conjugated, ReduceOp::sum);
  EXPECT_TRUE(conjugated.resolve_conj().eq(c10::complex<double>(size(), -size() * (size() - 1) / 2)).all().item<bool>());
}

TEST_P(Collectives, AGroupIsOneOperation) {
  std::vector<at::Tensor> tensors;
  std::vector<at::Tensor> expected;
  for (const auto dtype : {at::kFloat, at::kDouble, at::kFloat, at::kLong}) {
    for (const int64_t count : {0, 3, 1000}) {
      tensors.push_back(input_of(rank(), count, dtype));
      expected.push_back(reduced(count, dtype, ReduceOp::sum, size()));
    }
  }
  tensors.push_back(input_of(rank(), 6, at::kFloat).view({2, 3}).t());
  expected.push_back(reduced(6, at::kFloat, ReduceOp::sum, size()).view({2, 3}).t());
  tw::Work work = tw::iallreduce(comm(), tensors, ReduceOp::sum);
  work.wait();
  for (size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(tensors[i].equal(expected[i])) << i;
  tw::broadcast(comm(), tensors, tw::Rank(0));
  tw::allreduce(comm(), std::vector<at::Tensor>(), ReduceOp::sum);
}

TEST_P(Collectives, AHundredAreInFlightAndWaitedForInRandomOrder) {
  std::vector<at::Tensor> tensors;
  std::vector<tw::Work> works;
  std::vector<std::function<bool()>> checks;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t count = i % 5 == 0 ? 70000 : 10 + i;
    if (i % 3 == 0) {
      const at::Tensor output = torch::empty({size(), count}, on_device());
      works.push_back(tw::iallgather(comm(), input_of(rank(), count, at::kFloat), output));
      checks.emplace_back([=, this] { return output[size() - 1].equal(input_of(size() - 1, count, at::kFloat)); });
    } else if (i % 3 == 1) {
      const at::Tensor tensor = input_of(rank(), count, at::kFloat);
      works.push_back(tw::iallreduce(comm(), tensor, ReduceOp::sum));
      checks.emplace_back([=, this] { return tensor.equal(reduced(count, at::kFloat, ReduceOp::sum, size())); });
    } else {
      const at::Tensor tensor = input_of(rank(), count, at::kLong);
      works.push_back(tw::ibroadcast(comm(), tensor, tw::Rank(static_cast<int>(i) % size())));
      checks.emplace_back([=, this] { return tensor.equal(input_of(static_cast<int>(i) % size(), count, at::kLong)); });
    }
  }
  std::vector<size_t> order(works.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(rank())));  // a different order on every rank
  for (const size_t i : order) {
    works[i].wait();
    EXPECT_TRUE(checks[i]()) << i;
  }
}

TEST_P(Collectives, TheResultHasTheSameBitsOnAllRanks) {
  const at::Tensor tensor = (torch::rand({100003}) + int{rank()}).to(device());
  tw::allreduce(comm(), tensor, ReduceOp::sum);
  EXPECT_TRUE(tw::compare_replicas(comm(), tensor.cpu()).identical);
}

/// NaN in the last element of all sizes, and in every third elsewhere: on one rank, on another, or on all.
at::Tensor with_nan(int rank, int ranks, int64_t count, at::ScalarType dtype) {
  const at::Tensor places = torch::arange(count);
  const at::Tensor who = places.remainder(3 * (ranks + 1));  // `ranks`: all ranks
  const at::Tensor is_nan =
      who.eq(3 * rank).logical_or(who.eq(3 * ranks)).logical_or(places.eq(count - 1).logical_and(torch::tensor(rank == count % ranks)));
  return (places.remainder(7) - rank).to(at::kDouble).masked_fill(is_nan, NAN).to(dtype).to(device());
}

TEST_P(Collectives, NaNComesOutOfMinAndMaxWhereItGoesIn) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    for (const int64_t count : {1, 2, 67, 20011}) {
      for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
        at::Tensor expected = with_nan(0, size(), count, dtype);
        // LibTorch's min and max propagate NaN.
        for (int other = 1; other < size(); ++other) expected = combine(expected, with_nan(other, size(), count, dtype), op);
        const auto is_right = [&](const at::Tensor& got, const at::Tensor& right) { return torch::allclose(got, right, 0, 0, /*equal_nan=*/true); };
        const at::Tensor all = with_nan(rank(), size(), count, dtype);
        tw::allreduce(comm(), all, op);
        EXPECT_TRUE(is_right(all, expected)) << "allreduce " << label(dtype, count, op);
        EXPECT_TRUE(tw::compare_replicas(comm(), all.cpu()).identical) << label(dtype, count, op);
        const at::Tensor at_root = with_nan(rank(), size(), count, dtype);
        tw::reduce(comm(), at_root, op, tw::Rank(size() - 1));
        EXPECT_TRUE(rank() < size() - 1 || is_right(at_root, expected)) << "reduce " << label(dtype, count, op);
        const at::Tensor parts = with_nan(rank(), size(), count, dtype).repeat({size()});
        const at::Tensor mine = torch::empty({count}, on_device(dtype));
        tw::reduce_scatter(comm(), parts, mine, op);
        EXPECT_TRUE(is_right(mine, expected)) << "reduce_scatter " << label(dtype, count, op);
      }
    }
  }
}

/// Integers whose sums and products overflow every integer type.
at::Tensor large_integers(int rank, int64_t count, at::ScalarType dtype) {
  const int bits = static_cast<int>(8 * c10::elementSize(dtype));
  return ((torch::arange(count) % 13 + (int64_t{1} << (bits - 2)) + 3 * rank) * (torch::arange(count) % 2 * 2 - 1)).to(dtype).to(device());
}

TEST_P(Collectives, IntegersWrapAround) {
  for (const auto dtype : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong}) {
    for (const int64_t count : {1, 67, 20011}) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product}) {
        at::Tensor expected = large_integers(0, count, dtype);
        for (int other = 1; other < size(); ++other) {
          const at::Tensor theirs = large_integers(other, count, dtype);
          expected = op == ReduceOp::sum ? expected + theirs : expected * theirs;
        }
        const at::Tensor tensor = large_integers(rank(), count, dtype);
        tw::allreduce(comm(), tensor, op);
        EXPECT_TRUE(tensor.equal(expected)) << label(dtype, count, op);
        const at::Tensor mine = torch::empty({count}, on_device(dtype));
        tw::reduce_scatter(comm(), large_integers(rank(), count, dtype).repeat({size()}), mine, op);
        EXPECT_TRUE(mine.equal(expected)) << label(dtype, count, op);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Collectives,
                         testing::Values("shared_memory", "mpi", "hierarchical", "ring", "recursive_doubling", "circulant", "tree", "chain",
                                         "double_tree", "pairwise", "bruck"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace collectives_test
