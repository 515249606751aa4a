// SPDX-License-Identifier: Apache-2.0
// Collectives and messages of all kinds, many in flight, on a fresh communicator: each receives its own data. The test runs again with
// --largest-message=random, which cuts nearly all of them into pieces.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <tw/comm.hpp>

namespace in_flight_test {

using tw::ReduceOp;
using tw::testing::world;

struct Started {
  std::string what;
  tw::Work work;
  std::function<bool()> is_right;
};

/// The data of rank `from` for rank `to` in operation `number`.
at::Tensor values(int number, int from, int to, int64_t count, at::ScalarType dtype) {
  return (torch::arange(count) % 61 + 7 * number + 3 * from + to).remainder(100).to(dtype);
}

/// One operation, the same on all ranks except for its data. @param random the same numbers on all ranks
Started start_one(const tw::Communicator& comm, int number, std::mt19937& random) {
  const int ranks = comm.size();
  const int rank = comm.rank();
  const std::vector<at::ScalarType> dtypes{at::kByte, at::kInt, at::kFloat, at::kDouble};
  const at::ScalarType dtype = dtypes[random() % dtypes.size()];
  const int64_t count = static_cast<int64_t>(random() % 4 == 0 ? random() % 8 : random() % 3000);
  const int root = static_cast<int>(random() % static_cast<unsigned>(ranks));
  const unsigned kind = random() % 10;
  const auto of = [=](int from, int to) { return values(number, from, to, count + 5 * from + to, dtype); };  // each pair has a different length
  const auto lists = [&](const auto& make) {
    std::vector<at::Tensor> all;
    for (int other = 0; other < ranks; ++other) all.push_back(make(other));
    return all;
  };
  const auto equal_all = [=](const std::vector<at::Tensor>& got, const auto& expected) {
    for (int other = 0; other < ranks; ++other) {
      if (!got[static_cast<size_t>(other)].equal(expected(other))) return false;
    }
    return true;
  };
  switch (kind) {
    case 0: {
      const at::Tensor tensor = values(number, rank, 0, count, at::kLong);
      at::Tensor sum = torch::zeros({count}, at::kLong);
      for (int other = 0; other < ranks; ++other) sum += values(number, other, 0, count, at::kLong);
      return {"allreduce", tw::iallreduce(comm, tensor, ReduceOp::sum), [=] { return tensor.equal(sum); }};
    }
    case 1: {
      const at::Tensor tensor = values(number, rank, 0, count, dtype);
      return {"broadcast", tw::ibroadcast(comm, tensor, tw::Rank(root)), [=] { return tensor.equal(values(number, root, 0, count, dtype)); }};
    }
    case 2: {
      const at::Tensor all = torch::zeros({ranks, count}, dtype);
      return {"allgather", tw::iallgather(comm, values(number, rank, 0, count, dtype), all),
              [=] { return equal_all(all.unbind(), [=](int other) { return values(number, other, 0, count, dtype); }); }};
    }
    case 3: {
      const at::Tensor from = torch::zeros({ranks, count}, dtype);
      const at::Tensor to = torch::stack(lists([&](int other) { return values(number, rank, other, count, dtype); }));
      return {"alltoall", tw::ialltoall(comm, to, from),
              [=] { return equal_all(from.unbind(), [=](int other) { return values(number, other, rank, count, dtype); }); }};
    }
    case 4: {
      const at::Tensor mine = torch::zeros({count}, at::kInt);
      const at::Tensor parts = torch::stack(lists([&](int other) { return values(number, rank, other, count, at::kInt); }));
      at::Tensor largest = values(number, 0, rank, count, at::kInt);
      for (int other = 1; other < ranks; ++other) largest = torch::maximum(largest, values(number, other, rank, count, at::kInt));
      return {"reduce_scatter", tw::ireduce_scatter(comm, parts, mine, ReduceOp::max), [=] { return mine.equal(largest); }};
    }
    case 5:
    case 6: {
      const auto from = lists([&](int other) { return torch::zeros_like(of(other, rank)); });
      return {"alltoall of lists", tw::ialltoall(comm, lists([&](int other) { return of(rank, other); }), from),
              [=] { return equal_all(from, [=](int other) { return of(other, rank); }); }};
    }
    case 7: {
      const auto from = lists([&](int other) { return torch::zeros_like(of(other, root)); });
      return {"gather", tw::igather(comm, of(rank, root), from, tw::Rank(root)),
              [=] { return rank != root || equal_all(from, [=](int other) { return of(other, root); }); }};
    }
    case 8: {
      const at::Tensor mine = torch::zeros_like(of(root, rank));
      return {"scatter", tw::iscatter(comm, lists([&](int other) { return of(rank, other); }), mine, tw::Rank(root)),
              [=] { return mine.equal(of(root, rank)); }};
    }
    default: {
      const int next = (rank + 1) % ranks;
      const int previous = (rank + ranks - 1) % ranks;
      const at::Tensor incoming = torch::zeros_like(of(previous, rank));
      return {"sendrecv", tw::isendrecv(comm, of(rank, next), tw::Rank(next), incoming, tw::Rank(previous)),
              [=] { return incoming.equal(of(previous, rank)); }};
    }
  }
}

TEST(InFlight, EachOperationGetsWhatIsMeantForIt) {
  constexpr int rounds = 12;
  constexpr int operations = 40;
  std::mt19937 own(static_cast<unsigned>(world().rank()));
  for (int round = 0; round < rounds; ++round) {
    std::mt19937 random(static_cast<unsigned>(round));
    const tw::Communicator comm = world().dup();
    std::vector<Started> all;
    for (int number = 0; number < operations; ++number) {
      all.push_back(start_one(comm, number, random));
      for (unsigned turns = own() % 4 == 0 ? own() % 60 : 0; turns > 0; --turns) tw::progress(comm);  // ranks progress at different speeds
    }
    std::vector<size_t> order(all.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), own);
    for (const size_t i : order) {
      try {
        all[i].work.wait();
        EXPECT_TRUE(all[i].is_right()) << all[i].what << ", operation " << i << " of round " << round;
      } catch (const std::exception& error) {
        ADD_FAILURE() << all[i].what << ", operation " << i << " of round " << round << ": " << error.what();
      }
    }
    world().barrier();
  }
}

}  // namespace in_flight_test
