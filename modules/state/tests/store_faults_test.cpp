// SPDX-License-Identifier: Apache-2.0
// If disks are full, ranks fail, files are damaged or a removal is interrupted, the store must not lose intact checkpoints.
#include "full_disk.hpp"
#include "stored_example.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace store_faults_test {

namespace fs = std::filesystem;
using namespace tw::testing;
using tw::CheckpointStore;
using tw::NamedShard;
using tw::ShardKind;

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
  {  // space for the data, but not for the index: only rank 0 fails
    std::optional<FullDisk> full;
    const std::vector<NamedShard> small{tw::whole("w", torch::ones({1}), ShardKind::parameter)};
    if (world().rank() == 0) full.emplace(200);
    store.save(9, small, std::string(300, 'x'));
    expect_error([&] { store.wait(); }, {"index.json", "File too large"});
  }
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{1}));
}

/// Detects what happens first to a folder: IN_MOVE_SELF (renamed) or IN_DELETE (an entry removed).
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

// So a run killed in between leaves nothing that looks like a checkpoint but is half of one.
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
    world().barrier();  // the others' saves progress in it, since they do not poll
  };
  const auto expect_the_same_on_all = [&](const std::function<void()>& call) {
    seen_by_the_last_alone();
    if (world().size() > 1) {
      expect_error(call, {"a checkpoint was not saved", tw::file_name(last), "File too large"});
    } else {
      call();  // no other rank to inform
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
    expect_error([&] { (void)store.load(2, found); }, {path.filename().string(), "the previous checkpoint is step 1"});
    EXPECT_EQ(found[0].tensor.abs().sum().item<float>(), 0);  // untouched
  };
  for (const std::string& name : {std::string("index.json"), tw::file_name(0), tw::file_name(world().size() - 1)}) {
    const fs::path path = store.directory() / "step_00000002" / name;
    const std::string good = read_bytes(path);
    world().barrier();  // all have read it
    // On one rank, each byte of the index and of a header, and some of the data; on several ranks, fewer.
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

}  // namespace store_faults_test
