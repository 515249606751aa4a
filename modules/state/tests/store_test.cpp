// SPDX-License-Identifier: Apache-2.0
#include "longer.hpp"
#include "stored_example.hpp"

#include <atomic>
#include <ctime>
#include <fstream>
#include <thread>

namespace store_test {

namespace fs = std::filesystem;
using namespace tw::testing;
using tw::CheckpointStore;
using tw::NamedShard;
using tw::OnReshard;
using tw::ShardKind;

TEST(Store, GivesBackEveryBit) {
  CheckpointStore store(world(), fresh_folder());
  const auto shards = example(world(), 5);
  store.save(5, shards, world().rank() == 0 ? "rank 0's text" : "another");
  {
    const at::NoGradGuard no_grad;
    for (const NamedShard& shard : shards) at::Tensor(shard.tensor).zero_();  // copied already
  }
  store.wait();
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{5}));
  EXPECT_EQ(store.newest_valid(), std::optional<int64_t>(5));
  const auto expected = example(world(), 5);
  const auto found = blank(expected);
  EXPECT_EQ(store.load(5, found), "rank 0's text");
  expect_same(found, expected);
}

TEST(Store, AnyNumberOfRanksReadsIt) {
  const fs::path folder = fresh_folder();
  for (int savers = 1; savers <= world().size(); ++savers) {
    const tw::Communicator saving = world().split(world().rank() < savers ? 0 : 1, world().rank());
    const fs::path of_savers = folder / std::to_string(savers);
    if (world().rank() < savers) {
      CheckpointStore store(saving, of_savers);
      store.save(1, example(saving, savers), "");
      store.wait();
    }
    world().barrier();
    for (int loaders = 1; loaders <= world().size(); ++loaders) {
      const tw::Communicator loading = world().split(world().rank() < loaders ? 0 : 1, world().rank());
      if (world().rank() < loaders) expect_loads(CheckpointStore(loading, of_savers), loading, 1, savers);
      world().barrier();
    }
  }
}

TEST(Store, StaysWhereItIsWhenTheProgramChangesItsFolder) {
  const fs::path folder = fresh_folder();
  const fs::path before = fs::current_path();
  if (world().rank() == 0) fs::create_directories(folder);
  world().barrier();
  fs::current_path(folder);
  CheckpointStore store(world(), "relative");
  store.save(1, example(world(), 1), "");
  store.wait();
  fs::current_path(before);
  store.save(2, example(world(), 2), "");
  store.wait();
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(store.directory(), folder / "relative");
  EXPECT_FALSE(fs::exists("relative"));
}

TEST(Store, SpreadsTheBytesOverTheRanks) {
  CheckpointStore store(world(), fresh_folder());
  store.save(1, example(world(), 1), "");
  store.wait();
  int64_t most = 0;
  int64_t total = 0;
  for (int rank = 0; rank < world().size(); ++rank) {
    const auto bytes = static_cast<int64_t>(fs::file_size(store.directory() / "step_00000001" / tw::file_name(rank)));
    most = std::max(most, bytes);
    total += bytes;
  }
  EXPECT_LT(most, total / world().size() + 32 * 1024);  // headers, and tensors that are not cut
}

// Running statistics differ between ranks. One rank's are saved whole, rather than by whichever rank has least to write.
TEST(Store, OfBuffersTheFirstRankCounts) {
  const int64_t large = int64_t{1} << 20;  // so large that anything but a buffer would be cut
  const auto buffers = [](double value) {
    std::vector<NamedShard> shards{tw::whole("mean", torch::full({3}, value), ShardKind::buffer),
                                   tw::whole("large", torch::full({large}, value), ShardKind::buffer)};
    if (world().rank() > 0) shards.push_back(tw::whole("of_the_others", torch::full({3}, value), ShardKind::buffer));
    return shards;
  };
  CheckpointStore store(world(), fresh_folder());
  store.save(1, buffers(world().rank()), "");
  store.wait();
  const auto found = buffers(-1);
  (void)store.load(1, found);
  for (const NamedShard& shard : found) {
    const int first = shard.name == "of_the_others" ? 1 : 0;
    EXPECT_TRUE(shard.tensor.eq(first).all().item<bool>()) << shard.name << " is rank " << shard.tensor.flatten()[0].item<double>() << "'s";
  }
}

TEST(Store, ReshardsByTheRules) {
  const fs::path folder = fresh_folder();
  const int old_ranks = world().size();
  const auto own = [](double value, OnReshard on_reshard) {
    NamedShard shard = tw::whole(name_of(on_reshard), torch::full({3}, value), ShardKind::optimizer);
    shard.on_reshard = on_reshard;
    return shard;
  };
  const auto all = [&](double value) { return std::vector{own(value, OnReshard::sum), own(value, OnReshard::mean), own(value, OnReshard::drop)}; };
  const double mine = 1 + world().rank();
  CheckpointStore store(world(), folder);
  store.save(1, all(mine), "");
  store.wait();
  const auto same = all(0);
  (void)store.load(1, same);
  for (const NamedShard& shard : same) EXPECT_TRUE(shard.tensor.eq(mine).all().item<bool>()) << shard.name;

  world().barrier();
  const tw::Communicator alone = world().split(world().rank(), 0);
  if (world().rank() == 0 && old_ranks > 1) {
    const auto other = all(77);
    (void)CheckpointStore(alone, folder).load(1, other);
    const double sum = old_ranks * (old_ranks + 1) / 2.0;
    EXPECT_EQ(other[0].tensor[0].item<double>(), sum);
    EXPECT_FLOAT_EQ(other[1].tensor[0].item<float>(), static_cast<float>(sum / old_ranks));
    EXPECT_EQ(other[2].tensor[0].item<double>(), 77);
  }
  world().barrier();
}

// As of replicas that train apart, each of whose ranks holds a part.
TEST(Store, TakesMeansOfSlices) {
  const fs::path folder = fresh_folder();
  const int64_t parts = std::min<int64_t>(2, world().size());
  const auto slice = [&](int64_t part, double value) {
    NamedShard shard{"mean", {}, {2 * parts, 3}, torch::full({2, 3}, value), {2 * part, 0}, ShardKind::parameter, OnReshard::mean};
    return std::vector{shard};
  };
  const int64_t part = world().rank() % parts;
  const double mine = 1 + world().rank();
  CheckpointStore store(world(), folder);
  store.save(1, slice(part, mine), "");
  store.wait();
  const auto same = slice(part, 0);
  (void)store.load(1, same);
  EXPECT_TRUE(same[0].tensor.eq(mine).all().item<bool>());
  const tw::Checkpoint checkpoint = tw::Checkpoint::open(folder);
  EXPECT_TRUE(checkpoint.read("mean", {{1, 1}, {1, 2}}).equal(checkpoint.read("mean").narrow(0, 1, 1).narrow(1, 1, 2)));
  EXPECT_THROW((void)checkpoint.read("mean", {{1, 1}, {1, 3}}), tw::ContractError);
  // Columns 1 to 3 of all rows: no rank had these.
  const NamedShard other{"mean", {}, {2 * parts, 3}, torch::zeros({2 * parts, 2}), {0, 1}, ShardKind::parameter, OnReshard::shard};
  const std::vector<NamedShard> columns{other,
                                        {"mean", {}, {2 * parts, 3}, torch::zeros({2 * parts, 1}), {0, 0}, ShardKind::parameter, OnReshard::shard}};
  (void)store.load(1, columns);
  for (const NamedShard& each : columns) {
    for (int64_t row = 0; row < 2 * parts; ++row) {
      double sum = 0;
      int holders = 0;
      for (int rank = 0; rank < world().size(); ++rank) {
        if (rank % parts != row / 2) continue;
        sum += 1 + rank;
        ++holders;
      }
      EXPECT_TRUE(each.tensor[row].allclose(torch::full_like(each.tensor[row], sum / holders))) << row;
    }
  }
  world().barrier();
}

TEST(Store, KeepsTheLastOnesAndReplacesEqualSteps) {
  const fs::path folder = fresh_folder();
  {
    CheckpointStore store(world(), folder, {.keep = 2, .background = false});
    for (const int64_t step : std::vector<int64_t>{10, 20, 30, 100'000'000'000}) store.save(step, example(world(), step), "");
    EXPECT_EQ(store.steps(), (std::vector<int64_t>{30, 100'000'000'000}));
    store.save(40, example(world(), 40), "");  // later ones remain
    EXPECT_EQ(store.steps(), (std::vector<int64_t>{30, 40, 100'000'000'000}));
    store.save(40, example(world(), 41), "");
    expect_loads(store, world(), 40, 41);
    expect_loads(store, world(), 30, 30);
  }
  if (world().rank() == 0) {
    fs::create_directories(folder / "step_00000050.partial");
    std::ofstream(folder / "step_00000050.partial" / "rank_0000.safetensors") << "half";
    std::ofstream(folder / "notes.txt") << "mine";
  }
  world().barrier();
  const CheckpointStore store(world(), folder);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{30, 40, 100'000'000'000}));
  EXPECT_FALSE(fs::exists(folder / "step_00000050.partial"));
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
}

TEST(Store, RestoresACheckpointThatAKilledJobWasReplacing) {
  const fs::path folder = fresh_folder();
  {
    CheckpointStore store(world(), folder, {.background = false});
    store.save(40, example(world(), 40), "");
  }
  if (world().rank() == 0) {  // where folders cannot be exchanged
    fs::create_directories(folder / "step_00000040.partial");
    fs::rename(folder / "step_00000040", folder / "step_00000040.replaced.partial");
  }
  world().barrier();
  const CheckpointStore store(world(), folder);
  EXPECT_EQ(store.steps(), std::vector<int64_t>{40});
  expect_loads(store, world(), 40, 40);
  EXPECT_FALSE(fs::exists(folder / "step_00000040.partial"));
}

TEST(Store, RemovesARangeOfSteps) {
  CheckpointStore store(world(), fresh_folder(), {.keep = 10});
  for (const int64_t step : {1, 2, 3, 4}) store.save(step, example(world(), step), "");
  store.remove_steps(2, 4);  // also of a checkpoint in flight
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{1, 4}));
  store.remove_steps(4, 4);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{1, 4}));
}

TEST(Store, PollCommitsWithoutWaiting) {
  CheckpointStore store(world(), fresh_folder());
  store.poll();
  store.save(7, example(world(), 7), "");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!fs::exists(store.directory() / "step_00000007") && std::chrono::steady_clock::now() < deadline) store.poll();
  EXPECT_TRUE(fs::exists(store.directory() / "step_00000007" / "index.json"));
  store.save(8, example(world(), 8), "");  // waits for the rest of the previous save
  store.wait();
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{7, 8}));
  expect_loads(store, world(), 8, 8);
}

TEST(Store, AnswersWhileItSaves) {
  CheckpointStore store(world(), fresh_folder());
  store.save(1, example(world(), 1), "");
  store.wait();
  for (int64_t step = 2; step < 12; ++step) {
    store.save(step, example(world(), step), "");
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(5 * world().rank());
    while (std::chrono::steady_clock::now() < deadline) store.poll();  // ranks progress at different speeds
    EXPECT_TRUE(store.newest_valid() >= std::optional<int64_t>(step - 1));
    EXPECT_FALSE(store.steps().empty());
  }
  store.wait();
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{10, 11}));
}

TEST(Store, ChangesOfShapeAreNoticed) {
  CheckpointStore store(world(), fresh_folder());
  store.save(1, example(world(), 1), "");
  auto shards = example(world(), 2);
  if (world().rank() == 0) shards.push_back(tw::whole("of rank 0", torch::ones({3}), ShardKind::buffer));
  store.save(2, shards, "");
  store.wait();
  const auto found = blank(shards);
  (void)store.load(2, found);
  expect_same(found, shards);
}

TEST(Store, DroppedSavesLeaveTheOthers) {
  const fs::path folder = fresh_folder();
  for (int64_t round = 0; round < 10; ++round) {
    CheckpointStore store(world(), folder);
    store.save(1, example(world(), 1), "");
    store.wait();
    store.save(2 + round, example(world(), 2 + round), "");
    try {
      for (int i = 0; i < 100 * round; ++i) store.poll();
    } catch (const tw::Error& error) {  // another rank dropped it first
      EXPECT_NE(std::string(error.what()).find("dropped"), std::string::npos) << error.what();
    }
  }
  world().barrier();
  const CheckpointStore store(world(), folder);
  const auto newest = store.newest_valid();
  ASSERT_TRUE(newest.has_value());
  expect_loads(store, world(), *newest, *newest);
}

TEST(Store, SaysWhatDoesNotFit) {
  CheckpointStore store(world(), fresh_folder());
  store.save(1, example(world(), 1), "");
  store.wait();
  auto shards = blank(example(world(), 1));
  shards[0] = tw::whole("large", torch::zeros({700, 999}), ShardKind::parameter);
  shards[1] = tw::whole("double", torch::zeros({33}), ShardKind::buffer);
  shards[2].name = "quarter";
  expect_error([&] { (void)store.load(1, shards); },
               {"does not fit", "different shape or dtype: large float32 [700, 999] is float32 [700, 1000]",
                "different shape or dtype: double float32 [33] is float64 [33]", "missing in the checkpoint: parameter quarter bfloat16 [5, 5]",
                "extra in the checkpoint: parameter half bfloat16 [5, 5]"});
  expect_error([&] { (void)store.load(3, shards); }, {"step_00000003/index.json", "the previous checkpoint is step 1"});
  shards = example(world(), 1);
  if (world().rank() == world().size() - 1) shards[3].name = "large";
  expect_error([&] { store.save(2, shards, ""); }, {"large"});
  expect_error([&] { store.save(-1, example(world(), 1), ""); }, {"saving step -1 failed", "the step must be at least 0, got -1"});
  if (world().size() > 1)
    expect_error([&] { store.save(world().rank(), example(world(), 1), ""); },
                 {"the step to be saved must be the same on all ranks", "rank 1 has 'step 1' where rank 0 has 'step 0'"});
  shards = example(world(), 1);
  shards[0].name = "\xff";
  expect_error([&] { store.save(2, shards, ""); }, {"UTF-8"});
  store.save(3, example(world(), 3), "");
  store.wait();
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{1, 3}));
}

TEST(Store, RefusesAFolderThatCannotBe) {
  expect_error([] { CheckpointStore(world(), "/proc/no/such/place"); }, {"/proc/no/such/place"});
  expect_error([] { CheckpointStore(world(), fresh_folder(), {.keep = 0}); }, {"keep must be at least 1"});
}

// Each query holds the lock for a moment.
TEST(DirectoryLock, BeginsWhileOthersAsk) {
  const auto folder = fresh_folder();
  {
    const tw::DirectoryLock made(world(), folder);
  }
  std::atomic<bool> over = false;
  std::thread asks([&] {
    while (!over) (void)tw::is_in_use(folder);
  });
  for (int i = 0; i < 300; ++i) {
    EXPECT_NO_THROW(tw::DirectoryLock(world(), folder));
  }
  over = true;
  asks.join();
}

TEST(DirectoryLock, KeepsOthersOut) {
  const fs::path folder = fresh_folder();
  {
    const tw::DirectoryLock lock(world(), folder);
    expect_error([&] { tw::DirectoryLock(world(), folder); }, {"is in use by another run: process "});
    world().barrier();
  }
  const tw::DirectoryLock again(world(), folder);
  expect_error([] { tw::DirectoryLock(world(), "/proc/no/such/place"); }, {"/proc/no/such/place"});
}

// Quadratic algorithms took minutes for this number of tensors.
TEST(Checkpoint, IsReadInTimeLinearInItsTensors) {
  const int64_t many = longer("TEST_TENSORS", 5000);
  CheckpointStore store(world(), fresh_folder(), {.background = false});
  std::vector<NamedShard> shards;
  const at::Tensor one = torch::ones({1});
  for (int64_t i = 0; i < many; ++i) shards.push_back(tw::whole(tw::concat("layers.", i, ".weight"), one, ShardKind::parameter));
  const std::clock_t begin = std::clock();
  store.save(1, shards, "");
  (void)store.load(1, shards);
  if (world().rank() == 0) {
    const std::clock_t opens = std::clock();
    const tw::Checkpoint checkpoint = tw::Checkpoint::open(store.directory());
    EXPECT_LT(static_cast<double>(std::clock() - opens) / CLOCKS_PER_SEC, 2);
    for (const NamedShard& shard : shards) ASSERT_TRUE(checkpoint.read(shard.name).equal(one));
  }
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 8);  // half a second for 5,000
  world().barrier();
}

TEST(Checkpoint, IsReadByOneProcess) {
  CheckpointStore store(world(), fresh_folder(), {.background = false});
  store.save(3, example(world(), 3), "{}");
  store.save(4, example(world(), 4), "{\"epoch\": 1}");
  const tw::Checkpoint newest = tw::Checkpoint::open(store.directory());
  EXPECT_EQ(newest.index().step, 4);
  EXPECT_EQ(newest.index().metadata, "{\"epoch\": 1}");
  EXPECT_TRUE(newest.verify().empty());
  const tw::Checkpoint third = tw::Checkpoint::open(store.directory() / "step_00000003");
  torch::manual_seed(3);
  EXPECT_TRUE(third.read("large").equal(torch::randn({700, 1000})));
  EXPECT_EQ(third.read("rows").sizes(), (std::vector<int64_t>{10, 3}));
  EXPECT_THROW((void)third.read("absent"), tw::ContractError);
  EXPECT_THROW((void)tw::Checkpoint::open("/proc/self/fd"), tw::FileError);
}

}  // namespace store_test
