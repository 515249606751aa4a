// SPDX-License-Identifier: Apache-2.0
#include "full_disk.hpp"
#include "mpi_test.hpp"

#include <sys/inotify.h>
#include <torch/torch.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <tw/comm.hpp>
#include <tw/state.hpp>

namespace {

namespace fs = std::filesystem;
using tw::CheckpointStore;
using tw::NamedShard;
using tw::OnReshard;
using tw::ShardKind;
using tw::testing::FullDisk;
using tw::testing::world;

/// A folder of this test, empty at first. Collective.
fs::path fresh_folder(const tw::Communicator& comm = world()) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder = fs::path(testing::TempDir()) / tw::concat("tw_store_", test->name(), "_", world().size());
  if (comm.rank() == 0) fs::remove_all(folder);
  comm.barrier();
  return folder;
}

void expect_error(const std::function<void()>& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "no exception";
  } catch (const std::exception& error) {
    for (const std::string& part : parts) EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

/// The slice of `full` along `dimension` that `rank` of `size` has.
NamedShard slice(const std::string& name, const at::Tensor& full, int64_t dimension, int rank, int size) {
  const int64_t begin = full.size(dimension) * rank / size;
  const int64_t end = full.size(dimension) * (rank + 1) / size;
  NamedShard shard = tw::whole(name, full.slice(dimension, begin, end), ShardKind::parameter);
  shard.global_shape = full.sizes().vec();
  shard.offsets[static_cast<size_t>(dimension)] = begin;
  shard.on_reshard = OnReshard::shard;
  return shard;
}

/// Tensors of many types and shapes, whole and sliced; the values depend on `seed` alone.
std::vector<NamedShard> example(const tw::Communicator& comm, int64_t seed) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  std::vector<NamedShard> shards;
  shards.push_back(tw::whole("large", torch::randn({700, 1000}), ShardKind::parameter));
  shards.push_back(tw::whole("double", torch::randn({33}, torch::kDouble), ShardKind::buffer));
  shards.push_back(tw::whole("half", torch::randn({5, 5}).to(torch::kBFloat16), ShardKind::parameter));
  shards.push_back(tw::whole("complex", torch::randn({3}, torch::kComplexDouble), ShardKind::parameter));
  shards.push_back(tw::whole("mask", torch::rand({9}) > 0.5, ShardKind::buffer));
  shards.push_back(tw::whole("step", torch::full({}, seed, torch::kLong), ShardKind::counter));
  shards.push_back(tw::whole("empty", torch::zeros({0, 4}), ShardKind::buffer));
  shards.push_back(tw::whole("strided", torch::randn({6, 8}).t(), ShardKind::parameter));
  shards.push_back(slice("rows", torch::randn({10, 3}), 0, comm.rank(), comm.size()));
  shards.push_back(slice("columns", torch::randn({4, 1001}), 1, comm.rank(), comm.size()));
  shards.back().tensor.requires_grad_();
  return shards;
}

std::vector<NamedShard> blank(const std::vector<NamedShard>& shards) {
  std::vector<NamedShard> result = shards;
  for (NamedShard& shard : result) shard.tensor = at::zeros_like(shard.tensor.detach());
  return result;
}

void expect_same(const std::vector<NamedShard>& found, const std::vector<NamedShard>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].tensor.equal(expected[i].tensor)) << found[i].name;
}

void expect_loads(const CheckpointStore& store, const tw::Communicator& comm, int64_t step, int64_t seed) {
  const auto expected = example(comm, seed);
  const auto found = blank(expected);
  (void)store.load(step, found);
  expect_same(found, expected);
}

TEST(Store, GivesBackEveryBit) {
  CheckpointStore store(world(), fresh_folder());
  const auto shards = example(world(), 5);
  store.save(5, shards, world().rank() == 0 ? "rank 0's text" : "another");
  {
    const at::NoGradGuard no_grad;
    for (const NamedShard& shard : shards) at::Tensor(shard.tensor).zero_();  // it is copied by now
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
  EXPECT_LT(most, total / world().size() + 32 * 1024);  // headers, and the tensors that are not cut
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

TEST(Store, KeepsTheLastOnesAndReplacesEqualSteps) {
  const fs::path folder = fresh_folder();
  {
    CheckpointStore store(world(), folder, {.keep = 2, .background = false});
    for (const int64_t step : std::vector<int64_t>{10, 20, 30, 100'000'000'000}) store.save(step, example(world(), step), "");
    EXPECT_EQ(store.steps(), (std::vector<int64_t>{30, 100'000'000'000}));
    store.save(40, example(world(), 40), "");  // later ones stay
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

TEST(Store, PollCommitsWithoutWaiting) {
  CheckpointStore store(world(), fresh_folder());
  store.poll();
  store.save(7, example(world(), 7), "");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!fs::exists(store.directory() / "step_00000007") && std::chrono::steady_clock::now() < deadline) store.poll();
  EXPECT_TRUE(fs::exists(store.directory() / "step_00000007" / "index.json"));
  store.save(8, example(world(), 8), "");  // whatever is left of the one before is waited for
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
    while (std::chrono::steady_clock::now() < deadline) store.poll();  // the ranks are not equally far
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
    } catch (const tw::Error& error) {  // another rank was quicker to drop it
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
               {"does not fit", "misshapen: large float32 [700, 999] is float32 [700, 1000]", "misshapen: double float32 [33] is float64 [33]",
                "missing in the checkpoint: parameter quarter bfloat16 [5, 5]", "extra in the checkpoint: parameter half bfloat16 [5, 5]"});
  expect_error([&] { (void)store.load(3, shards); }, {"step_00000003/index.json", "the checkpoint before it is that of step 1"});
  shards = example(world(), 1);
  if (world().rank() == world().size() - 1) shards[3].name = "large";
  expect_error([&] { store.save(2, shards, ""); }, {"large"});
  expect_error([&] { store.save(-1, example(world(), 1), ""); }, {"a step cannot be -1"});
  if (world().size() > 1) expect_error([&] { store.save(world().rank(), example(world(), 1), ""); }, {"the ranks save different steps"});
  shards = example(world(), 1);
  shards[0].name = "\xff";
  expect_error([&] { store.save(2, shards, ""); }, {"UTF-8"});
  store.save(3, example(world(), 3), "");
  store.wait();
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{1, 3}));
}

TEST(Store, AFullDiskLosesNothing) {
  CheckpointStore store(world(), fresh_folder());
  store.save(1, example(world(), 1), "");
  store.wait();
  const int last = world().size() - 1;
  for (const uint64_t bytes : {4096U, 100'000U, 100'001U}) {
    std::optional<FullDisk> full;
    if (world().rank() == last) full.emplace(bytes);
    store.save(2, example(world(), 2), "");
    expect_error([&] { store.wait(); }, {tw::concat("rank ", last), tw::file_name(last), "File too large"});
    full.reset();
    store.wait();
    EXPECT_EQ(store.steps(), (std::vector<int64_t>{1}));
    store.save(2, example(world(), 2), "");
    store.wait();
    expect_loads(store, world(), 1, 1);
    expect_loads(store, world(), 2, 2);
    world().barrier();
    if (world().rank() == 0) fs::remove_all(store.directory() / "step_00000002");
    world().barrier();
  }
  {  // room for the data, but not for the index: rank 0 alone finds it
    std::optional<FullDisk> full;
    const std::vector<NamedShard> small{tw::whole("w", torch::ones({1}), ShardKind::parameter)};
    if (world().rank() == 0) full.emplace(200);
    store.save(9, small, std::string(300, 'x'));
    expect_error([&] { store.wait(); }, {"index.json", "File too large"});
  }
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{1}));
}

/// Sees what happens first to a folder: IN_MOVE_SELF, it gets another name, or IN_DELETE, something in it is removed.
class Watch {
 public:
  explicit Watch(const fs::path& folder) { EXPECT_GE(::inotify_add_watch(queue_, folder.c_str(), IN_MOVE_SELF | IN_DELETE), 0) << folder; }
  ~Watch() { ::close(queue_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  uint32_t first_event() const {
    alignas(inotify_event) std::array<char, 4096> events{};
    return ::read(queue_, events.data(), events.size()) > 0 ? reinterpret_cast<const inotify_event*>(events.data())->mask : 0;
  }

 private:
  int queue_ = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
};

// So that a run which is killed meanwhile leaves nothing that looks like a checkpoint and is half of one.
TEST(Store, OldCheckpointsLoseTheirNamesBeforeTheirFiles) {
  CheckpointStore store(world(), fresh_folder(), {.keep = 1, .background = false});
  const auto expect_renamed_first = [&](int64_t step, const std::function<void()>& removing) {
    store.save(step, example(world(), step), "");
    std::optional<Watch> watch;
    if (world().rank() == 0) watch.emplace(store.directory() / tw::concat("step_0000000", step));
    removing();
    if (watch) {
      EXPECT_EQ(watch->first_event(), IN_MOVE_SELF) << step;
    }
  };
  expect_renamed_first(1, [&] { store.save(2, example(world(), 2), ""); });
  expect_renamed_first(3, [&] { store.remove_all(); });
  EXPECT_TRUE(store.steps().empty());
}

TEST(Store, AFailureThatSomeRanksHaveSeenIsThrownOnAll) {
  CheckpointStore store(world(), fresh_folder());
  const int last = world().size() - 1;
  const auto seen_by_the_last_alone = [&] {
    std::optional<FullDisk> full;
    if (world().rank() == last) full.emplace(4096);
    store.save(1, example(world(), 1), "");
    if (world().rank() == last) {
      const auto poll_to_the_end = [&] {
        while (true) store.poll();
      };
      expect_error(poll_to_the_end, {"File too large"});
    }
    world().barrier();  // the others' saves go on in it, and they do not poll
  };
  const auto expect_the_same_on_all = [&](const std::function<void()>& call) {
    seen_by_the_last_alone();
    if (world().size() > 1) {
      expect_error(call, {"a checkpoint was not saved", tw::file_name(last), "File too large"});
    } else {
      call();  // nobody is left to be told
    }
  };
  expect_the_same_on_all([&] { store.wait(); });
  expect_the_same_on_all([&] { store.remove_all(); });
  expect_the_same_on_all([&] { store.save(2, example(world(), 2), ""); });
  store.save(3, example(world(), 3), "");
  store.wait();
  EXPECT_EQ(store.newest_valid(), std::optional<int64_t>(3));
}

std::string read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

TEST(Store, AnyDamageIsFoundAndThePreviousOneOffered) {
  tw::set_log_level(tw::LogLevel::error);
  CheckpointStore store(world(), fresh_folder(), {.background = false});
  const std::vector<NamedShard> shards{tw::whole("w", torch::randn({300}), ShardKind::parameter),
                                       tw::whole("b", torch::randn({20}), ShardKind::buffer)};
  store.save(1, shards, "");
  store.save(2, shards, "");
  const auto found = blank(shards);
  const auto expect_refused = [&](const fs::path& path) {
    world().barrier();
    expect_error([&] { (void)store.load(2, found); }, {path.filename().string(), "the checkpoint before it is that of step 1"});
    EXPECT_EQ(found[0].tensor.abs().sum().item<float>(), 0);  // untouched
  };
  for (const std::string& name : {std::string("index.json"), tw::file_name(0), tw::file_name(world().size() - 1)}) {
    const fs::path path = store.directory() / "step_00000002" / name;
    const std::string good = read_bytes(path);
    world().barrier();  // all have read it
    // Alone, each byte of the index and of a header, and some of the data; several ranks have less patience.
    const size_t thorough = name == "index.json" ? good.size() : 384;
    for (size_t at = 0; at < good.size(); at += world().size() > 1 ? 131 : at < thorough ? 1 : 7) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
      if (world().rank() == 0) write_bytes(path, bad);
      expect_refused(path);
      if (at % 5 != 0) continue;
      world().barrier();
      if (world().rank() == 0) write_bytes(path, good.substr(0, at));
      expect_refused(path);
    }
    EXPECT_EQ(store.newest_valid(), std::optional<int64_t>(1));
    world().barrier();
    if (world().rank() == 0) fs::remove(path);
    expect_refused(path);
    world().barrier();
    if (world().rank() == 0) write_bytes(path, good);
    world().barrier();
    EXPECT_EQ(store.newest_valid(), std::optional<int64_t>(2));
  }
  tw::set_log_level(tw::LogLevel::info);
}

TEST(Store, RefusesAFolderThatCannotBe) {
  expect_error([] { CheckpointStore(world(), "/proc/no/such/place"); }, {"/proc/no/such/place"});
  expect_error([] { CheckpointStore(world(), fresh_folder(), {.keep = 0}); }, {"keep must be at least 1"});
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

}  // namespace
