// SPDX-License-Identifier: Apache-2.0
// Example shards for the store's tests.
#pragma once
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <tw/comm.hpp>
#include <tw/state.hpp>

namespace tw::testing {

namespace fs = std::filesystem;

/// An empty folder for the current test. Collective.
inline fs::path fresh_folder(const tw::Communicator& comm = world()) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder = fs::path(::testing::TempDir()) / tw::concat("tw_store_", test->name(), "_", world().size());
  if (comm.rank() == 0) fs::remove_all(folder);
  comm.barrier();
  return folder;
}

inline void expect_error(const std::function<void()>& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "no exception";
  } catch (const std::exception& error) {
    for (const std::string& part : parts) EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

/// Rank `rank`'s slice of `full` along `dimension`, of `size` slices.
inline NamedShard slice(const std::string& name, const at::Tensor& full, int64_t dimension, int rank, int size) {
  const int64_t begin = full.size(dimension) * rank / size;
  const int64_t end = full.size(dimension) * (rank + 1) / size;
  NamedShard shard = tw::whole(name, full.slice(dimension, begin, end), ShardKind::parameter);
  shard.global_shape = full.sizes().vec();
  shard.offsets[static_cast<size_t>(dimension)] = begin;
  shard.on_reshard = OnReshard::shard;
  return shard;
}

/// Whole and sliced tensors of many types and shapes; the values depend only on `seed`.
inline std::vector<NamedShard> example(const tw::Communicator& comm, int64_t seed) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  std::vector<NamedShard> shards;
  shards.push_back(tw::whole("large", place(torch::randn({700, 1000})), ShardKind::parameter));
  shards.push_back(tw::whole("double", place(torch::randn({33}, torch::kDouble)), ShardKind::buffer));
  shards.push_back(tw::whole("half", place(torch::randn({5, 5}).to(torch::kBFloat16)), ShardKind::parameter));
  shards.push_back(tw::whole("complex", place(torch::randn({3}, torch::kComplexDouble)), ShardKind::parameter));
  shards.push_back(tw::whole("mask", place(torch::rand({9}) > 0.5), ShardKind::buffer));
  shards.push_back(tw::whole("step", torch::full({}, seed, torch::kLong), ShardKind::counter));
  shards.push_back(tw::whole("empty", place(torch::zeros({0, 4})), ShardKind::buffer));
  shards.push_back(tw::whole("strided", place(torch::randn({6, 8})).t(), ShardKind::parameter));
  shards.push_back(slice("rows", place(torch::randn({10, 3})), 0, comm.rank(), comm.size()));
  shards.push_back(slice("columns", place(torch::randn({4, 1001})), 1, comm.rank(), comm.size()));
  shards.back().tensor.requires_grad_();
  return shards;
}

inline std::vector<NamedShard> blank(const std::vector<NamedShard>& shards) {
  std::vector<NamedShard> result = shards;
  for (NamedShard& shard : result) shard.tensor = at::zeros_like(shard.tensor.detach());
  return result;
}

inline void expect_same(const std::vector<NamedShard>& found, const std::vector<NamedShard>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].tensor.equal(expected[i].tensor)) << found[i].name;
}

inline void expect_loads(const CheckpointStore& store, const tw::Communicator& comm, int64_t step, int64_t seed) {
  const auto expected = example(comm, seed);
  const auto found = blank(expected);
  (void)store.load(step, found);
  expect_same(found, expected);
}

}  // namespace tw::testing
